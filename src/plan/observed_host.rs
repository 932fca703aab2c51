//! The observed state of a host.

use super::host_hold::HostHold;
use super::missing_cluster::MissingCluster;
use super::ongoing_work::OngoingWork;
use super::secret_claims::{list_secret_claims, withhold_bodies};
use crate::facts::Facts;
use crate::model::{HostName, StepId, UntrustedText, Value};
use crate::probe::{GuardTrace, Observation, Probe, ProbeReading, ScriptAccount, UnansweredReason};
use indexmap::IndexSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Why a host could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UnreachableReason {
    /// A lowercase fragment.
    pub why: UntrustedText,
    /// How to make the host reachable; absent if there is no advice.
    pub hint: Option<UntrustedText>,
    /// The address that both contain, if they do: apart from it, the reasons of many hosts are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<UntrustedText>,
}

impl UnreachableReason {
    /// Builds a reason whose texts contain no address.
    pub fn new(why: impl Into<UntrustedText>, hint: Option<UntrustedText>) -> Self {
        Self { why: why.into(), hint, address: None }
    }

    /// Builds the reason of a host whose shell for forge has a mount namespace of its own.
    pub fn own_mounts() -> Self {
        let hint = "if it is a login by ssh, remove options such as PrivateTmp=, ProtectSystem= and PrivateDevices= from the \
                    unit of sshd (`systemctl cat ssh` or `sshd`), and restart it";
        Self::new("the shell of forge on the host has other mounts than process 1 of the host", Some(hint.into()))
    }

    /// Returns the same text with a placeholder for the address, to group hosts. It is not for people.
    pub fn without_address(&self) -> Self {
        let Some(address) = self.own_address() else { return self.clone() };
        let any = |text: &UntrustedText| UntrustedText::from(text.raw().replace(address, "ADDRESS"));
        Self { why: any(&self.why), hint: self.hint.as_ref().map(any), address: None }
    }

    /// Returns the reason of this host and of `others`, which differ from it in their addresses only: it lists some of
    /// the addresses, and the commands of its hint remain those of this host.
    pub fn join_addresses<'a>(&'a self, others: impl Iterator<Item = &'a Self>) -> Self {
        let Some(first) = self.own_address() else { return self.clone() };
        let all: IndexSet<&str> = std::iter::once(first).chain(others.filter_map(Self::own_address)).collect();
        let all: Vec<&str> = all.into_iter().collect();
        let rest = &all[1..];
        if rest.is_empty() {
            return self.clone();
        }
        let advise = |hint: &UntrustedText| match hint.raw().contains(first) {
            true => format!("{}; likewise for {}", hint.raw(), list_some(rest)).into(),
            false => hint.clone(),
        };
        let why = self.why.raw().replace(first, &list_some(&all)).into();
        Self { why, hint: self.hint.as_ref().map(advise), address: None }
    }

    fn own_address(&self) -> Option<&str> {
        self.address.as_ref().map(UntrustedText::raw).filter(|text| !text.is_empty())
    }
}

/// Lists up to three addresses and counts the others.
fn list_some(addresses: &[&str]) -> String {
    let (named, more) = addresses.split_at(addresses.len().min(3));
    match more.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Why forge may change nothing on a reachable host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct HostRefusal {
    /// A lowercase fragment.
    pub why: UntrustedText,
    /// How to let forge change the host.
    pub hint: UntrustedText,
}

impl HostRefusal {
    /// Builds the refusal for a host where forge acts as the account `account`, which is not root.
    pub fn not_root(account: &str) -> Self {
        let why = format!("runs as `{account}`, but root is required");
        Self { why: why.into(), hint: "set `connect: { sudo: … }` or log in as root".into() }
    }
}

/// Why a saved plan is not applied to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalePlanReason {
    /// A lowercase fragment that continues after the host's name.
    pub why: UntrustedText,
    /// How to continue, usually with a new plan.
    pub hint: UntrustedText,
    /// Steps that depend on a value that changed, each with that value.
    pub steps: Vec<(StepId, UntrustedText)>,
    /// Steps that the plan would not run and that differ now or do not apply any more, each with the reason.
    pub unsettled: Vec<(StepId, UntrustedText)>,
}

/// What the cluster's API reported about a host that is declared as one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservedNode {
    /// It is a node.
    Node {
        /// The name of the node in the cluster, which may differ from the host's name.
        name: UntrustedText,
        /// The run that drained it and has not uncordoned it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<UntrustedText>,
        /// Pods and disruption budgets that will hold up a drain, each as a lowercase fragment. Read for nodes that the
        /// plan drains only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        obstacles: Vec<UntrustedText>,
    },
    /// It is not a node, or not yet.
    Absent,
    /// The cluster does not exist yet: this run creates it.
    NoCluster,
    /// It could not be read: the reason, as a lowercase fragment.
    Unknown {
        /// A lowercase fragment.
        why: UntrustedText,
    },
}

/// Whether a host is reachable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostReachability {
    /// The host answered.
    Observed,
    /// The host did not answer, or forge could not log in: the reason.
    Unreachable(UnreachableReason),
}

/// The result of observing a host.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedHost {
    /// The observed host, or `kubernetes` for the cluster's API.
    pub host: HostName,
    /// Whether the host was observed, or why not: then it has no answers, facts and records.
    pub reach: HostReachability,
    /// The host's answers to the probes.
    pub observation: Observation,
    /// The facts that were computed from the answers.
    pub facts: Facts,
    /// The applied records of the host, by step (`recipe/step[key]`); each cluster that works on the host has its own.
    pub records: BTreeMap<String, Vec<Value>>,
    /// The names of the record files that cannot be read as records.
    pub unreadable: Vec<String>,
    /// Kind and name of objects that may contain a secret, because a record of a declaration with a secret names them.
    pub secret_claims: BTreeSet<(String, String)>,
    /// The mark of a window that is open on the host.
    pub window: Option<UntrustedText>,
    /// The hold that keeps apply from changing the host.
    pub hold: Option<HostHold>,
    /// Work of another run on the host.
    pub activity: Option<OngoingWork>,
    /// Guards of earlier runs that no session confirmed.
    pub guards: Vec<GuardTrace>,
    /// Its Kubernetes node, if it is declared to be one.
    pub node: Option<ObservedNode>,
    /// Hex of the host's key for digests of secret values, if it has one already.
    pub key: Option<String>,
    /// The account that forge acts as there, if that is not root.
    pub account: Option<UntrustedText>,
    /// Number of round trips that the observation took.
    pub trips: u32,
    /// Whether the host is a sandbox on this machine, or its hardware is simulated.
    pub simulated: bool,
    /// Why a plan that was made from an earlier observation is not applied to this host.
    pub stale: Option<StalePlanReason>,
    /// For a cluster that does not exist yet: how it is created. It counts as observed, without answers.
    pub missing: Option<MissingCluster>,
}

impl ObservedHost {
    /// Builds the state of a host that could not be observed.
    pub fn from_unreachable(host: &HostName, why: UnreachableReason) -> Self {
        Self {
            host: host.clone(),
            reach: HostReachability::Unreachable(why),
            observation: Observation::default(),
            facts: Facts::default(),
            records: BTreeMap::new(),
            unreadable: Vec::new(),
            secret_claims: BTreeSet::new(),
            window: None,
            hold: None,
            activity: None,
            guards: Vec::new(),
            node: None,
            key: None,
            account: None,
            trips: 0,
            simulated: false,
            stale: None,
            missing: None,
        }
    }

    /// Builds the state from the answers of a host.
    pub fn from_observation(host: &HostName, mut observation: Observation, trips: u32) -> Self {
        let HostRecords { records, unreadable, key } = parse_records(&observation);
        let secret_claims = list_secret_claims(&records);
        withhold_bodies(&mut observation, &secret_claims);
        observation.compact();
        let facts = Facts::from_observation(&observation);
        let (account, window) = (read_account(&observation), read_window_mark(&observation));
        Self {
            host: host.clone(),
            reach: HostReachability::Observed,
            facts,
            records,
            unreadable,
            secret_claims,
            window,
            hold: read_hold(&observation),
            activity: read_activity(&observation),
            guards: read_guards(&observation),
            observation,
            node: None,
            key,
            account,
            trips,
            simulated: false,
            stale: None,
            missing: None,
        }
    }

    /// Merges later answers.
    pub fn merge_observation(&mut self, mut later: Observation) {
        if later.has_answer(&Probe::Records) {
            HostRecords { records: self.records, unreadable: self.unreadable, key: self.key } = parse_records(&later);
            // What was secret when the run began may be so still.
            self.secret_claims.append(&mut list_secret_claims(&self.records));
            self.window = read_window_mark(&later);
            self.hold = read_hold(&later);
            self.activity = read_activity(&later);
            self.guards = read_guards(&later);
        }
        withhold_bodies(&mut later, &self.secret_claims);
        self.account = read_account(&later).or(self.account.take());
        self.facts.0.merge(Facts::from_observation(&later).0);
        self.observation.merge(later);
        self.observation.compact();
    }

    /// Returns the record that `cluster` has of a step. An old record, which names no cluster, counts for any cluster.
    pub fn find_record(&self, cluster: &str, step: &str) -> Option<&Value> {
        let records = self.records.get(step)?;
        let of = |wanted: Option<&str>| {
            records.iter().find(|record| record.get("cluster").and_then(Value::as_str) == wanted)
        };
        of(Some(cluster)).or_else(|| of(None))
    }

    /// Returns the run that drained the host's node and has not uncordoned it, if any.
    pub fn drained_by(&self) -> Option<&UntrustedText> {
        match &self.node {
            Some(ObservedNode::Node { left, .. }) => left.as_ref(),
            _ => None,
        }
    }

    /// Reports whether what answered sees other mounts than the host's process 1.
    pub fn has_own_mounts(&self) -> bool {
        matches!(self.observation.get(&Probe::Account), Ok(ProbeReading::Account(ScriptAccount::Isolated)))
    }

    /// Returns why forge's records could not be read, if they were requested.
    pub fn records_failure(&self) -> Option<UnansweredReason> {
        match self.observation.has_answer(&Probe::Records) {
            true => self.observation.get(&Probe::Records).err(),
            false => None,
        }
    }

    /// Returns why forge's records in the cluster could not be read, if they were requested there.
    pub fn cluster_records_failure(&self) -> Option<UnansweredReason> {
        self.records_failure().filter(|_| self.host.is_cluster())
    }

    /// Reports whether the host answered.
    pub fn is_observed(&self) -> bool {
        self.reach == HostReachability::Observed
    }

    /// Returns why forge may change nothing there, if that is so.
    pub fn refusal_reason(&self) -> Option<HostRefusal> {
        self.account.as_ref().map(|account| HostRefusal::not_root(account.raw()))
    }
}

fn read_account(observation: &Observation) -> Option<UntrustedText> {
    match observation.get(&Probe::Account) {
        Ok(ProbeReading::Account(ScriptAccount::Other(name))) => Some(name.clone()),
        _ => None,
    }
}

fn read_window_mark(observation: &Observation) -> Option<UntrustedText> {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) => state.window.clone(),
        _ => None,
    }
}

fn read_hold(observation: &Observation) -> Option<HostHold> {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) => state.hold.as_ref().and_then(HostHold::from_mark),
        _ => None,
    }
}

fn read_activity(observation: &Observation) -> Option<OngoingWork> {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) => OngoingWork::from_state(state),
        _ => None,
    }
}

fn read_guards(observation: &Observation) -> Vec<GuardTrace> {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) => state.guards.clone(),
        _ => Vec::new(),
    }
}

/// What the folder of the records holds.
#[derive(Default)]
struct HostRecords {
    records: BTreeMap<String, Vec<Value>>,
    unreadable: Vec<String>,
    key: Option<String>,
}

/// Parses the records. A step is evaluated without a record that cannot be read. Findings and passed tests are stored next
/// to them, under names that no step has (`CLUSTER@@…`).
fn parse_records(observation: &Observation) -> HostRecords {
    let Ok(ProbeReading::Records(state)) = observation.get(&Probe::Records) else {
        return HostRecords::default();
    };
    let mut found = HostRecords { key: state.key.clone(), ..HostRecords::default() };
    for (file, text) in state.records.iter().filter(|(file, _)| !file.contains("@@")) {
        let value = serde_json::from_str::<Value>(text.raw()).ok();
        let step = value.as_ref().and_then(|value| value.get("step")).and_then(Value::as_str).map(str::to_owned);
        match value.zip(step) {
            Some((value, step)) => found.records.entry(step).or_default().push(value),
            None => found.unreadable.push(file.clone()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_records_are_a_failure_of_the_cluster_only() {
        let observe = |host: &HostName, answer: Option<Result<ProbeReading, UnansweredReason>>| {
            let mut seen = Observation::default();
            answer.into_iter().for_each(|answer| seen.insert(Probe::Records, answer));
            ObservedHost::from_observation(host, seen, 1).cluster_records_failure()
        };
        let (cluster, denied) = (HostName::cluster_api(), UnansweredReason::new("denied (403)"));
        assert_eq!(observe(&cluster, Some(Err(denied.clone()))), Some(denied.clone()));
        assert_eq!(observe(&cluster, Some(Ok(ProbeReading::Records(Box::default())))), None);
        assert_eq!(observe(&cluster, None), None, "they were not requested");
        assert_eq!(observe(&HostName::new("a"), Some(Err(denied))), None);
    }
}
