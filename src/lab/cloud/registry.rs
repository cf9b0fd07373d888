//! The commands of the lab's cloud, each with its handler.

use super::call::{Call, Reply};
use super::model::CloudState;
use super::{balancers, catalogue, deploy, identity, machines, rules};
use crate::protocol::Fault;

/// How a command is answered, under the lock of the state. A handler that refuses has changed nothing.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Looks only.
    Read(fn(&CloudState, &Call<'_>) -> Result<Reply, Fault>),
    /// May change the state.
    Write(fn(&mut CloudState, &Call<'_>) -> Result<Reply, Fault>),
}

/// A command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) is_async: bool,
    /// For root administrators only.
    pub(crate) admin: bool,
    pub(crate) run: Run,
}

type Read = fn(&CloudState, &Call<'_>) -> Result<Reply, Fault>;
type Write = fn(&mut CloudState, &Call<'_>) -> Result<Reply, Fault>;

const fn reads(name: &'static str, about: &'static str, run: Read) -> Command {
    Command {
        name,
        about,
        is_async: false,
        admin: false,
        run: Run::Read(run),
    }
}

const fn writes(name: &'static str, about: &'static str, run: Write) -> Command {
    Command {
        name,
        about,
        is_async: false,
        admin: false,
        run: Run::Write(run),
    }
}

const fn submits(name: &'static str, about: &'static str, run: Write) -> Command {
    Command {
        name,
        about,
        is_async: true,
        admin: false,
        run: Run::Write(run),
    }
}

/// Every command, by name.
pub(crate) const COMMANDS: &[Command] = &[
    submits(
        "assignToLoadBalancerRule",
        "Puts machines behind a load balancer rule",
        balancers::assign,
    ),
    submits("attachIso", "Attaches an ISO to a machine", machines::attach_iso),
    submits(
        "createFirewallRule",
        "Opens ports of a public address",
        rules::create_firewall,
    ),
    submits(
        "createLoadBalancerRule",
        "Makes a load balancer rule",
        balancers::create,
    ),
    submits(
        "createPortForwardingRule",
        "Forwards public ports to a machine",
        rules::create_forward,
    ),
    submits("createTags", "Tags objects", catalogue::create_tags),
    submits(
        "deleteFirewallRule",
        "Removes a firewall rule",
        rules::delete_firewall,
    ),
    submits(
        "deleteLoadBalancerRule",
        "Removes a load balancer rule",
        balancers::delete,
    ),
    submits(
        "deletePortForwardingRule",
        "Removes a port-forwarding rule",
        rules::delete_forward,
    ),
    submits("deleteTags", "Removes tags", catalogue::delete_tags),
    submits(
        "deployVirtualMachine",
        "Makes a machine and starts it",
        deploy::deploy,
    ),
    submits(
        "destroyVirtualMachine",
        "Destroys a machine, which can be recovered",
        machines::destroy,
    ),
    submits("detachIso", "Detaches the ISO of a machine", machines::detach_iso),
    submits(
        "expungeVirtualMachine",
        "Removes a destroyed machine for good",
        machines::expunge,
    ),
    reads("getUser", "Finds the user of an API key", identity::get_user),
    Command {
        admin: true,
        ..reads("getUserKeys", "Shows the keys of a user", identity::get_user_keys)
    },
    reads("listAccounts", "Lists accounts", identity::accounts),
    reads("listApis", "Lists the commands", identity::apis),
    reads("listAsyncJobs", "Lists jobs", identity::jobs),
    reads(
        "listCapabilities",
        "Shows what the cloud can do",
        identity::capabilities,
    ),
    reads("listDomains", "Lists domains", identity::domains),
    reads("listFirewallRules", "Lists firewall rules", rules::list_firewall),
    reads("listIsos", "Lists ISOs", catalogue::isos),
    reads(
        "listLoadBalancerRuleInstances",
        "Lists machines behind a rule",
        balancers::instances,
    ),
    reads(
        "listLoadBalancerRules",
        "Lists load balancer rules",
        balancers::list,
    ),
    reads("listNetworks", "Lists networks", catalogue::networks),
    reads(
        "listPortForwardingRules",
        "Lists port-forwarding rules",
        rules::list_forwards,
    ),
    reads("listProjects", "Lists projects", identity::projects),
    reads("listPublicIpAddresses", "Lists public addresses", rules::list_ips),
    reads("listSSHKeyPairs", "Lists key pairs", catalogue::key_pairs),
    reads(
        "listServiceOfferings",
        "Lists service offerings",
        catalogue::offerings,
    ),
    reads("listTags", "Lists tags", catalogue::tags),
    reads("listTemplates", "Lists templates", catalogue::templates),
    reads("listUsers", "Lists users", identity::users),
    reads("listVirtualMachines", "Lists machines", machines::list),
    reads("listVirtualMachinesMetrics", "Lists machines", machines::list),
    reads("listVolumes", "Lists disks", machines::list_volumes),
    reads("listZones", "Lists zones", catalogue::zones),
    reads("queryAsyncJobResult", "Shows how far a job is", identity::job),
    submits("rebootVirtualMachine", "Restarts a machine", machines::reboot),
    writes(
        "recoverVirtualMachine",
        "Brings a destroyed machine back",
        machines::recover,
    ),
    writes("registerIso", "Registers an ISO", catalogue::register_iso),
    submits(
        "removeFromLoadBalancerRule",
        "Takes machines from a load balancer rule",
        balancers::unassign,
    ),
    submits(
        "scaleVirtualMachine",
        "Gives a machine another offering",
        machines::resize,
    ),
    submits("startVirtualMachine", "Starts a machine", machines::start),
    submits("stopVirtualMachine", "Stops a machine", machines::stop),
    writes(
        "updateVirtualMachine",
        "Changes display name and protection",
        machines::update,
    ),
];

/// A command by its exact name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
