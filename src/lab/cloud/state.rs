//! Look-ups over the records.

use uuid::Uuid;

use super::model::{
    Account, AccountKind, CloudState, Domain, Network, Offering, Owner, Project, PublicIp, User, Vm,
};

impl CloudState {
    /// A machine, expunged ones too.
    pub(crate) fn vm(&self, id: Uuid) -> Option<&Vm> {
        self.vms.iter().find(|have| have.id == id)
    }

    /// A machine, to change it.
    pub(crate) fn vm_mut(&mut self, id: Uuid) -> Option<&mut Vm> {
        self.vms.iter_mut().find(|have| have.id == id)
    }

    /// A public address.
    pub(crate) fn ip(&self, id: Uuid) -> Option<&PublicIp> {
        self.ips.iter().find(|have| have.id == id)
    }

    /// A network.
    pub(crate) fn network(&self, id: Uuid) -> Option<&Network> {
        self.networks.iter().find(|have| have.id == id)
    }

    /// A service offering.
    pub(crate) fn offering(&self, id: Uuid) -> Option<&Offering> {
        self.offerings.iter().find(|have| have.id == id)
    }

    /// An account.
    pub(crate) fn account(&self, id: Uuid) -> Option<&Account> {
        self.accounts.iter().find(|have| have.id == id)
    }

    /// An account by its name in a domain.
    pub(crate) fn account_named(&self, name: &str, domain: Uuid) -> Option<&Account> {
        self.accounts
            .iter()
            .find(|have| have.name == name && have.domain == domain)
    }

    /// A user.
    pub(crate) fn user(&self, id: Uuid) -> Option<&User> {
        self.users.iter().find(|have| have.id == id)
    }

    /// A project.
    pub(crate) fn project(&self, id: Uuid) -> Option<&Project> {
        self.projects.iter().find(|have| have.id == id)
    }

    /// A domain.
    pub(crate) fn domain(&self, id: Uuid) -> Option<&Domain> {
        self.domains.iter().find(|have| have.id == id)
    }

    /// Whether a domain is another one or lies below it.
    pub(crate) fn within(&self, domain: Uuid, top: Uuid) -> bool {
        let mut at = Some(domain);
        while let Some(id) = at {
            if id == top {
                return true;
            }
            at = self.domain(id).and_then(|have| have.parent);
        }
        false
    }

    /// The domain of an owner.
    pub(crate) fn domain_of(&self, owner: Owner) -> Option<Uuid> {
        match owner {
            Owner::Account(id) => self.account(id).map(|account| account.domain),
            Owner::Project(id) => self.project(id).map(|project| project.domain),
        }
    }

    /// Whether an account may see and change what an owner has.
    pub(crate) fn may_use(&self, account: Uuid, owner: Owner) -> bool {
        let Some(caller) = self.account(account) else {
            return false;
        };
        match caller.kind {
            AccountKind::Admin => true,
            AccountKind::DomainAdmin => self
                .domain_of(owner)
                .is_some_and(|domain| self.within(domain, caller.domain)),
            AccountKind::User => match owner {
                Owner::Account(id) => id == account,
                Owner::Project(id) => self
                    .project(id)
                    .is_some_and(|project| project.members.contains(&account)),
            },
        }
    }

    /// The next number of the counter.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}
