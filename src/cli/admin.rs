//! `cksd admin`: accounts, users with keys, versions.

use std::process::ExitCode;

use clap::Subcommand;
use secrecy::ExposeSecret as _;

use super::{Installation, print};
use crate::app::manage::{Role, VersionRequest};
use crate::app::service::Parts;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    installation: Installation,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Accounts.
    #[command(subcommand)]
    Account(Account),
    /// Users of an account.
    #[command(subcommand)]
    User(User),
    /// Versions of Kubernetes.
    #[command(subcommand)]
    Version(Version),
}

#[derive(Debug, Subcommand)]
enum Account {
    /// Make an account; one that is there with the same role is found.
    Add {
        /// Its name.
        name: String,
        /// Its domain, like ROOT or ROOT/customers; made if it is not there.
        #[arg(long, default_value = "ROOT")]
        domain: String,
        /// What it may do: Admin, DomainAdmin or User.
        #[arg(long, default_value = "User", value_parser = role)]
        role: Role,
    },
}

#[derive(Debug, Subcommand)]
enum User {
    /// Give a user new keys and print them, once; the user is made if it is not there.
    Keys {
        /// The account.
        account: String,
        /// The user; named as the account when left out.
        user: Option<String>,
        /// The account's domain.
        #[arg(long, default_value = "ROOT")]
        domain: String,
    },
}

#[derive(Debug, Subcommand)]
enum Version {
    /// Register a version by the ISO that holds its binaries.
    #[command(disable_version_flag = true)]
    Add {
        /// The version, like 1.33.1.
        version: String,
        /// The ISO's id in the cloud.
        #[arg(long)]
        iso: uuid::Uuid,
        /// Its name; v1.33.1 when left out.
        #[arg(long)]
        name: Option<String>,
        /// The only zone that it is for.
        #[arg(long)]
        zone: Option<uuid::Uuid>,
        /// Least number of cores of a node.
        #[arg(long, default_value_t = 2)]
        min_cpu: i32,
        /// Least memory of a node in MB.
        #[arg(long, default_value_t = 2048)]
        min_memory: i64,
    },
}

fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "must be Admin, DomainAdmin or User".to_owned())
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let parts = arguments.installation.parts()?;
    match arguments.what {
        What::Account(Account::Add { name, domain, role }) => {
            let account = parts.ensure_account(&domain, &name, role).await?;
            print(format_args!(
                "account {} {} ({})",
                account.name,
                account.id,
                account.role.name()
            ));
        }
        What::User(User::Keys {
            account,
            user,
            domain,
        }) => {
            let user = user.unwrap_or_else(|| account.clone());
            print_keys(&parts, &domain, &account, &user).await?;
        }
        What::Version(Version::Add {
            version,
            iso,
            name,
            zone,
            min_cpu,
            min_memory,
        }) => {
            let request = VersionRequest {
                semantic_version: version,
                iso: iso.into(),
                name,
                zone: zone.map(Into::into),
                min_cpu,
                min_ram_mb: min_memory,
            };
            let version = parts.ensure_version(&request).await?;
            print(format_args!(
                "version {} {} ({})",
                version.name, version.id, version.semantic_version
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn print_keys(parts: &Parts, domain: &str, account: &str, user: &str) -> anyhow::Result<()> {
    let keys = parts.new_keys(domain, account, user).await?;
    print(format_args!("CLOUDSTACK_KEY={}", keys.api_key));
    print(format_args!(
        "CLOUDSTACK_SECRET={}",
        keys.secret_key.expose_secret()
    ));
    Ok(())
}
