//! Why a job is slow: observes hosts twice, asks the built-in questions, and names the repair of each cause.

mod derived_facts;
mod pod_network;

use self::derived_facts::{build_traffic, describe_peers, describe_pods, describe_transport, find_declared_lanes};
use self::pod_network::describe_pod_network;
use super::acceptance::AcceptanceReport;
use super::cluster_nodes::{LazyClusterApi, find_declared_node};
use super::event::EventSender;
use super::observe::{observe_facts, observe_probes};
use super::outliers::find_host_outliers;
use super::run_options::RunOptions;
use crate::acceptance::{AnsweredQuestion, CauseLikelihood, group_answers, rank_causes};
use crate::config::{Project, SlowQuestions};
use crate::kube::WorkloadPod;
use crate::model::{ExitCode, HostName, UntrustedText};
use crate::object::ClusterNode;
use crate::plan::{HostReachability, ObservedHost};
use crate::probe::{Probe, UnansweredReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What to diagnose.
pub struct WhySlowRequest<'r> {
    /// The selected hosts.
    pub hosts: &'r [HostName],
    /// The job, by its namespace and name: then only hosts with its pods are asked.
    pub job: Option<(&'r str, &'r str)>,
    /// Time between the two readings of the counters.
    pub pause: Duration,
}

/// The path of questions, and the causes that they found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowDiagnosis {
    /// The hosts that were asked, in inventory order.
    pub hosts: Vec<HostName>,
    /// Simulated hosts, and hosts with simulated hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// Hosts that did not answer, with the reason.
    pub unreachable: Vec<UnaskedHost>,
    /// Pods of the job that nothing is known about, because no host of the inventory runs them: `train-3 on node gpu-9`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<UntrustedText>,
    /// Every question in its order, with all answers.
    pub path: Vec<AnsweredQuestion>,
    /// The causes, the most likely first.
    pub causes: Vec<SlowCause>,
    /// The tests of the set `quick` between the suspects, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<AcceptanceReport>,
}

/// How many hosts without a finding are measured with the suspects: a slow one is named by two measurements with others.
const COMPARED_HOSTS: usize = 2;

/// A host that did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnaskedHost {
    /// The host.
    pub host: HostName,
    /// Why, as a lowercase fragment.
    pub why: UntrustedText,
}

/// A cause, with its repair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCause {
    /// The question that found it.
    pub question: String,
    /// How probable it is that it explains a slow job.
    pub likelihood: CauseLikelihood,
    /// Why it makes a job slow.
    pub cause: String,
    /// The hosts on which it was found.
    pub hosts: Vec<HostName>,
    /// How to repair it.
    pub repair: CauseRepair,
    /// What to check if the recipes of `repair` change nothing for it, such as hardware; absent if they repair it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// How a cause is repaired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseRepair {
    /// These recipes are declared for hosts of the cause: their plan shows whether they would change something.
    Declared(Vec<String>),
    /// No recipe that repairs it is declared: one of these.
    Declare(Vec<String>),
    /// What a person does.
    Action(String),
    /// The evidence says what to change.
    Evidence,
}

impl SlowDiagnosis {
    /// Returns the exit code: 2 if a cause was found.
    pub fn exit_code(&self) -> ExitCode {
        let found = (!self.causes.is_empty()).then_some(ExitCode::Changes);
        let unreachable = (!self.unreachable.is_empty()).then_some(ExitCode::Unreachable);
        let nothing = self.hosts.is_empty().then_some(ExitCode::Unknown);
        let measured = self.measured.as_ref().map(AcceptanceReport::exit_code);
        ExitCode::pick_worst(found.into_iter().chain(unreachable).chain(nothing).chain(measured))
    }

    /// Returns the hosts to measure: those with a finding, and two others to compare them with; every host if nothing
    /// was found.
    pub fn list_measured_hosts(&self) -> Vec<HostName> {
        let suspects: BTreeSet<&HostName> = self.causes.iter().flat_map(|cause| &cause.hosts).collect();
        let mut others = 0;
        let mut is_measured = |host: &&HostName| {
            let is_suspect = suspects.is_empty() || suspects.contains(host);
            others += usize::from(!is_suspect);
            is_suspect || others <= COMPARED_HOSTS
        };
        self.hosts.iter().filter(|host| is_measured(host)).cloned().collect()
    }
}

/// Asks the built-in questions of hosts. Changes nothing.
///
/// # Errors
/// The job's pods cannot be read, or the questions are invalid: the reason, as a lowercase fragment.
pub async fn diagnose_slow_job(
    project: &Project,
    request: &WhySlowRequest<'_>,
    options: &RunOptions,
    events: &EventSender,
) -> Result<SlowDiagnosis, String> {
    let questions = SlowQuestions::load_builtin()?;
    let JobPods { by_host: pods, elsewhere, nodes } = match request.job {
        Some((namespace, name)) => read_job_pods(project, namespace, name, options).await?,
        None => JobPods::default(),
    };
    let is_asked = |host: &&HostName| !host.is_cluster() && (request.job.is_none() || pods.contains_key(*host));
    let hosts: Vec<HostName> = request.hosts.iter().filter(is_asked).cloned().collect();
    let began = Instant::now();
    let read_nodes = async {
        match nodes {
            Some(nodes) => Ok(nodes),
            None => list_declared_nodes(project, options).await,
        }
    };
    let (observed, nodes) = tokio::join!(observe_facts(project, &hosts, options, events), read_nodes);
    let mut seen = observed.seen;
    let later = match &options.replay.observed {
        Some(_) => Err(UnansweredReason::new("a recording has one reading of the counters")),
        None => {
            tokio::time::sleep(request.pause.saturating_sub(began.elapsed())).await;
            let counters = BTreeSet::from([Probe::Fact { name: "rdma_counters".to_owned() }]);
            Ok((
                observe_probes(project, &hosts, [&counters, &BTreeSet::new()], options, events).await.seen,
                began.elapsed(),
            ))
        }
    };
    let outliers = find_host_outliers(project, &seen);
    for host in seen.iter_mut().filter(|host| host.is_observed()) {
        let traffic = later.as_ref().map_err(Clone::clone).and_then(|(again, elapsed)| {
            let again = again.iter().find(|later| later.host == host.host);
            build_traffic(&host.facts, again.map(|again| &again.facts), *elapsed)
        });
        let own = pods.get(&host.host).map(Vec::as_slice).unwrap_or_default();
        let node = match &nodes {
            Ok(nodes) => find_declared_node(project, &host.host, nodes).map_err(UnansweredReason::new),
            Err(why) => Err(why.clone()),
        };
        let derived = [
            ("declared_lanes", Ok(find_declared_lanes(project, &host.host))),
            ("pod_network", node.and_then(|node| describe_pod_network(node, &host.facts))),
            ("traffic", traffic),
            ("workload", Ok(describe_pods(own))),
            ("nccl", describe_transport(own)),
            ("peers", Ok(describe_peers(&outliers, &host.host))),
        ];
        host.facts.0.merge(derived.into());
    }
    Ok(SlowDiagnosis { elsewhere, ..build_diagnosis(project, &questions, &seen) })
}

fn build_diagnosis(project: &Project, questions: &SlowQuestions, seen: &[ObservedHost]) -> SlowDiagnosis {
    let asked: Vec<&ObservedHost> = seen.iter().filter(|host| host.is_observed()).collect();
    let answers: Vec<_> = asked.iter().map(|host| (host.host.clone(), questions.ask_host(&host.facts))).collect();
    let path = group_answers(questions.list_questions(), &answers);
    let causes = rank_causes(&path).into_iter().map(|found| build_cause(project, found)).collect();
    let silent = |host: &ObservedHost| {
        let HostReachability::Unreachable(reason) = &host.reach else { return None };
        Some(UnaskedHost { host: host.host.clone(), why: reason.why.clone() })
    };
    SlowDiagnosis {
        hosts: asked.iter().map(|host| host.host.clone()).collect(),
        simulated: asked.iter().filter(|host| host.simulated).map(|host| host.host.clone()).collect(),
        unreachable: seen.iter().filter_map(silent).collect(),
        elsewhere: Vec::new(),
        path,
        causes,
        measured: None,
    }
}

fn build_cause(project: &Project, found: &AnsweredQuestion) -> SlowCause {
    let hosts: Vec<HostName> = found.found_hosts().into_iter().cloned().collect();
    let question = &found.question;
    let cluster = project.cluster_member();
    let applied = || {
        let members = hosts.iter().chain(cluster);
        members.flat_map(|host| project.instances.get(host).into_iter().flatten()).filter(|instance| !instance.absent)
    };
    let is_declared = |recipe: &&String| applied().any(|instance| instance.recipe.name == **recipe);
    let declared: Vec<String> = question.recipes.iter().filter(is_declared).cloned().collect();
    let repair = match (declared.is_empty(), question.recipes.is_empty(), &question.action) {
        (false, ..) => CauseRepair::Declared(declared),
        (true, false, _) => CauseRepair::Declare(question.recipes.clone()),
        (true, true, Some(action)) => CauseRepair::Action(action.clone()),
        (true, true, None) => CauseRepair::Evidence,
    };
    SlowCause {
        question: question.name.clone(),
        likelihood: question.likelihood,
        cause: question.cause.clone(),
        hosts,
        repair,
        otherwise: question.action.clone().filter(|_| !question.recipes.is_empty()),
    }
}

/// Returns the nodes of the declared cluster; none if no cluster is declared.
///
/// # Errors
/// They could not be read.
async fn list_declared_nodes(project: &Project, options: &RunOptions) -> Result<Vec<ClusterNode>, UnansweredReason> {
    if project.kubernetes.is_none() {
        return Ok(Vec::new());
    }
    if options.replay.observed.is_some() {
        return Err(UnansweredReason::new("a recording does not have the nodes of the cluster"));
    }
    let api = LazyClusterApi::default();
    let nodes = api.list_nodes(project, options).await.map(|(_, nodes)| nodes);
    api.close().await;
    nodes.map_err(|error| {
        UnansweredReason::new(format!("the nodes of the cluster could not be read: {}", error.message))
    })
}

/// The pods of a job.
#[derive(Default)]
struct JobPods {
    /// By the host on whose node they run.
    by_host: BTreeMap<HostName, Vec<WorkloadPod>>,
    /// Those on no host of the inventory, with their node.
    elsewhere: Vec<UntrustedText>,
    /// The nodes of the cluster, which were listed to find the pods' hosts.
    nodes: Option<Vec<ClusterNode>>,
}

/// Returns the pods of a job.
async fn read_job_pods(
    project: &Project,
    namespace: &str,
    name: &str,
    options: &RunOptions,
) -> Result<JobPods, String> {
    let job = format!("{namespace}/{name}");
    let api = LazyClusterApi::default();
    let read = async {
        let (cluster, nodes) = api.list_nodes(project, options).await?;
        Ok::<_, crate::kube::KubeError>((cluster.read_workload_pods(namespace, name).await?, nodes))
    };
    let read = read.await;
    api.close().await;
    let (pods, nodes) = read.map_err(|error| format!("pods of job `{job}` could not be read: {}", error.message))?;
    if pods.is_empty() {
        return Err(format!("job `{job}` has no pods"));
    }
    let mut by_host: BTreeMap<HostName, Vec<WorkloadPod>> = BTreeMap::new();
    for host in project.hosts.keys() {
        let node = find_declared_node(project, host, &nodes)?;
        let own = pods.iter().filter(|pod| node.is_some_and(|node| pod.node.as_deref() == Some(&node.name)));
        let own: Vec<WorkloadPod> = own.cloned().collect();
        if !own.is_empty() {
            by_host.insert(host.clone(), own);
        }
    }
    let is_placed = |pod: &WorkloadPod| by_host.values().flatten().any(|placed| placed.name == pod.name);
    let describe = |pod: &WorkloadPod| match &pod.node {
        Some(node) => format!("{} on node {node}", pod.name).into(),
        None => format!("{} on no node", pod.name).into(),
    };
    let elsewhere = pods.iter().filter(|pod| !is_placed(pod)).map(describe).collect();
    match by_host.is_empty() {
        true => Err(format!("none of the {} pods of job `{job}` runs on a host of the inventory", pods.len())),
        false => Ok(JobPods { by_host, elsewhere, nodes: Some(nodes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(hosts: &[&str], suspects: &[&str]) -> SlowDiagnosis {
        let names = |names: &[&str]| names.iter().map(|name| HostName::new(*name)).collect::<Vec<_>>();
        let cause = SlowCause {
            question: "acs".into(),
            likelihood: CauseLikelihood::Likely,
            cause: String::new(),
            hosts: names(suspects),
            repair: CauseRepair::Evidence,
            otherwise: None,
        };
        SlowDiagnosis {
            hosts: names(hosts),
            simulated: Vec::new(),
            unreachable: Vec::new(),
            elsewhere: Vec::new(),
            path: Vec::new(),
            causes: if suspects.is_empty() { Vec::new() } else { vec![cause] },
            measured: None,
        }
    }

    #[test]
    fn suspects_are_measured_with_two_other_hosts() {
        let of = |suspects: &[&str]| {
            let hosts = diagnosis(&["a", "b", "c", "d", "e"], suspects).list_measured_hosts();
            hosts.iter().map(HostName::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(&["d"]), ["a", "b", "d"]);
        assert_eq!(of(&["a", "e"]), ["a", "b", "c", "e"]);
        assert_eq!(of(&["a", "b", "c", "d", "e"]).len(), 5);
        assert_eq!(of(&[]).len(), 5, "without a finding, each host is a suspect");
    }
}
