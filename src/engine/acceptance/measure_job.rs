//! Runs a collective as a job of the cluster, with one pod on each host of a group, and judges its log.

use super::measure::{MeasureContext, STOPPED, TestMeasurement, fill_words, not_measured, shorten_middle};
use super::test_cluster::TestCluster;
use super::test_host::TestHost;
use crate::acceptance::TestVerdict;
use crate::config::Project;
use crate::kube::{MAX_LOG_LINES, TestJobCall, TestJobEnd, TestJobOutcome, TestPodLog};
use crate::model::{HostName, UntrustedText};
use crate::object::{AdapterLink, TestJobKind, TestJobLaunch, TestJobObject};

/// Processes and programs of one job.
struct JobPlan {
    launch: TestJobLaunch,
    hosts: Vec<String>,
    nodes: Vec<String>,
    slots: u64,
    command: Vec<String>,
}

impl MeasureContext<'_> {
    /// Measures a group with a job.
    pub async fn measure_group_by_job(
        &self,
        launch: &TestJobLaunch,
        group: &[&TestHost<'_>],
        number: usize,
    ) -> TestMeasurement {
        let Some(cluster) = self.cluster else {
            return not_measured("a test that runs as a job needs the cluster", Vec::new());
        };
        let plan = match self.plan_job(cluster, launch, group).await {
            Ok(plan) => plan,
            Err(why) => return not_measured(&why, Vec::new()),
        };
        let api = match cluster.open().await {
            Ok(api) => api,
            Err(why) => return not_measured(&why, Vec::new()),
        };
        if self.is_stopped() {
            return not_measured(STOPPED, Vec::new());
        }
        let (running, poll_interval) = cluster.start_job();
        let call = self.build_call(&plan, number, poll_interval);
        let outcome = api.run_test_job(&call, &|| self.is_stopped()).await;
        drop(running);
        self.judge_job(&plan, group, outcome)
    }

    async fn plan_job(
        &self,
        cluster: &TestCluster<'_>,
        launch: &TestJobLaunch,
        group: &[&TestHost<'_>],
    ) -> Result<JobPlan, String> {
        let names: Vec<&HostName> = group.iter().map(|host| &host.name).collect();
        let slots = self.test.parameters.get("slots").filter(|slots| !slots.is_empty());
        let slots = slots.map_or(launch.gpu_count(), |slots| slots.parse().ok().filter(|slots| *slots > 0));
        let slots = slots.ok_or("the number of processes per pod is not a number")?;
        let mut parameters = self.test.parameters.clone();
        parameters.insert("slots".to_owned(), slots.to_string());
        parameters.insert("ranks".to_owned(), (slots * names.len() as u64).to_string());
        Ok(JobPlan {
            launch: complete_launch(self.project, launch, &names)?,
            hosts: names.iter().map(|name| name.as_str().to_owned()).collect(),
            nodes: cluster.find_nodes(&names).await?,
            slots,
            command: fill_words(&self.test.definition.rank_command, &parameters)?,
        })
    }

    fn build_call(&self, plan: &JobPlan, number: usize, poll_interval: std::time::Duration) -> TestJobCall {
        let parameter = |name: &str| self.test.parameters.get(name).map(String::as_str).unwrap_or_default();
        let definition = &self.test.definition;
        let collective = definition.collective.as_deref().unwrap_or_default();
        let object = TestJobObject {
            launch: &plan.launch,
            hosts: &plan.hosts,
            nodes: &plan.nodes,
            slots: plan.slots,
            command: &plan.command,
            collective: (collective, parameter("begin"), parameter("size")),
            limit_s: definition.limit_s,
        };
        TestJobCall {
            object: object.build(),
            cluster: self.project.cluster.clone(),
            run: format!("{}-{number}", self.run),
            pod_count: object.pod_count(),
            start_within_s: plan.launch.start_within_s,
            limit_s: definition.limit_s,
            poll_interval,
        }
    }

    fn judge_job(&self, plan: &JobPlan, group: &[&TestHost<'_>], outcome: TestJobOutcome) -> TestMeasurement {
        let logs: Vec<TestPodLog> = outcome.logs.into_iter().map(|log| self.scrub_log(log)).collect();
        let outputs: Vec<UntrustedText> = logs.iter().map(render_log).collect();
        let (api_version, kind) = plan.launch.kind.api_kind();
        let definition = &self.test.definition;
        let verdict = match outcome.end {
            TestJobEnd::Succeeded => self.judge_logs(&logs, group, plan),
            TestJobEnd::Failed(why) => {
                let listing = join_results(&logs);
                self.find_wrong_values(&listing).unwrap_or_else(|| TestVerdict::not_measured(self.scrub_text(why)))
            }
            TestJobEnd::NotStarted(why) => {
                let (limit, why) = (plan.launch.start_within_s, self.scrub_text(why));
                TestVerdict::not_measured(format!("the pods did not start within {limit} s: {why}"))
            }
            TestJobEnd::OutOfTime => {
                TestVerdict::not_measured(format!("the limit of {} s stopped the job", definition.limit_s))
            }
            TestJobEnd::Stopped => TestVerdict::not_measured(STOPPED),
            TestJobEnd::Deleted => TestVerdict::not_measured("the job disappeared from the API during the measurement"),
            TestJobEnd::NoSuchKind => {
                TestVerdict::not_measured(format!("the cluster has no kind {kind} of {api_version}"))
            }
            TestJobEnd::Refused(why) => TestVerdict::not_measured(why),
        };
        // A job that is left disturbs the next measurement, and this one may have waited for it.
        let verdict = match (outcome.left, verdict) {
            (None, verdict) => verdict,
            (Some(left), TestVerdict::NotMeasured { reason }) => {
                TestVerdict::not_measured(format!("{reason}; the job could not be deleted: {left}"))
            }
            // A fault that was measured stays one.
            (Some(left), TestVerdict::Fail { value, reason }) => {
                TestVerdict::Fail { value, reason: format!("{reason}; the job could not be deleted: {left}") }
            }
            (Some(left), _) => TestVerdict::not_measured(format!("the job could not be deleted: {left}")),
        };
        TestMeasurement { verdict, outputs, lost: Vec::new() }
    }

    fn judge_logs(&self, logs: &[TestPodLog], group: &[&TestHost<'_>], plan: &JobPlan) -> TestVerdict {
        let mut whole = String::new();
        for log in logs {
            match &log.text {
                // What the first lines say of the network would be missing.
                Ok(text) if text.lines().count() >= MAX_LOG_LINES => {
                    let why = format!("the log of pod {} has {MAX_LOG_LINES} lines or more: its start is cut", log.pod);
                    return TestVerdict::not_measured(why);
                }
                Ok(text) => whole.push_str(text),
                Err(why) => {
                    return TestVerdict::not_measured(format!("the log of pod {} cannot be read: {why}", log.pod));
                }
            }
            whole.push('\n');
        }
        match self.expect(group, None) {
            _ if !logs.iter().any(|log| log.has_result) => {
                TestVerdict::not_measured("the pod that prints the result was gone before its log was read")
            }
            // Each process logs its own network.
            _ if plan.launch.kind == TestJobKind::PyTorchJob && logs.len() < plan.nodes.len() => {
                let (read, all) = (logs.len(), plan.nodes.len());
                TestVerdict::not_measured(format!("only {read} of {all} pods still had a log when the job ended"))
            }
            Ok(expected) => self.judge_nccl(&join_results(logs), &whole, &expected),
            Err(why) => TestVerdict::not_measured(why),
        }
    }

    fn scrub_log(&self, log: TestPodLog) -> TestPodLog {
        TestPodLog { text: log.text.map(|text| self.scrub_text(text)), ..log }
    }

    /// The reason of a container may be the last lines that its program printed.
    fn scrub_text(&self, text: String) -> String {
        let secrets = &self.project.secrets;
        if secrets.is_empty() { text } else { secrets.scrub_secrets(&text) }
    }
}

fn render_log(log: &TestPodLog) -> UntrustedText {
    let text = match &log.text {
        Ok(text) => shorten_middle(text.clone()),
        Err(why) => format!("log not available: {why}"),
    };
    UntrustedText::new(format!("pod {}:\n{text}", log.pod))
}

/// Takes the traffic class from the recipe that prepares the hosts for it, unless the entry declares one.
///
/// # Errors
/// Both have one, and they differ: NCCL's traffic would have a priority that the network may drop.
fn complete_launch(project: &Project, launch: &TestJobLaunch, hosts: &[&HostName]) -> Result<TestJobLaunch, String> {
    let mut completed = launch.clone();
    if launch.link != AdapterLink::Roce || launch.env.contains_key("NCCL_IB_TC") {
        return Ok(completed);
    }
    for host in hosts {
        let instances = project.instances.get(*host).into_iter().flatten();
        let Some(roce) = instances.into_iter().find(|one| one.recipe.name == "roce" && !one.absent) else { continue };
        let Some(tos) = roce.params.get("tos").and_then(|tos| tos.value.as_u64()) else { continue };
        match completed.traffic_class {
            None => completed.traffic_class = Some(tos),
            Some(class) if class == tos => {}
            Some(class) => {
                return Err(format!("the traffic class {class} differs from `tos` {tos} of recipe `roce` on `{host}`"));
            }
        }
    }
    Ok(completed)
}

/// Returns what the pods printed that print the result.
fn join_results(logs: &[TestPodLog]) -> String {
    let results = logs.iter().filter(|log| log.has_result).filter_map(|log| log.text.as_deref().ok());
    results.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
