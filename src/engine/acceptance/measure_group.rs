//! Runs a program on all hosts of a group: a launcher such as `mpirun` starts it over the network between the hosts.
//!
//! The launcher's own unit cannot end processes on other hosts. Each host therefore has a guard, a unit that ends every
//! process with the mark of the measurement: when it is stopped, and by itself after the time limit.

use super::group_launch::{GroupLaunch, find_launch};
use super::measure::{
    MeasureContext, STOPPED, TestMeasurement, describe_failure, describe_loss, fill_words, lose_host, not_measured,
};
use super::test_host::TestHost;
use super::test_scripts::{build_guard_script, build_guard_stop_script, build_user_program_script};
use crate::acceptance::TestVerdict;
use crate::config::TestPrograms;
use futures_util::future::join_all;
use std::collections::BTreeMap;

/// Seconds for which a guard outlives the program: a launcher ends the processes that it started.
const GUARD_GRACE_S: u64 = 5;

impl MeasureContext<'_> {
    /// Measures a group. `tested` are all hosts that this run has locked: one of them may have to start the program.
    pub async fn measure_group(
        &self,
        group: &[&TestHost<'_>],
        tested: &[&TestHost<'_>],
        number: usize,
    ) -> TestMeasurement {
        if let Some(launch) = self.test.launch.as_kubernetes() {
            return self.measure_group_by_job(launch, group, number).await;
        }
        let TestPrograms::Group(command) = &self.test.definition.programs else {
            return not_measured("the test does not run on a group", Vec::new());
        };
        let unit = format!("forge-test-{}-{number}", self.run);
        let launch = match find_launch(self.project, self.test, group, tested) {
            Ok(launch) => launch,
            Err(why) => return not_measured(&why, Vec::new()),
        };
        let parameters = self.group_parameters(group, &launch, &unit);
        let words = match self.test.launch.as_slurm() {
            Some(slurm) => self.build_slurm_words(slurm, group, (&unit, launch.slots), &parameters).await,
            None => fill_words(command, &parameters),
        };
        let words = match words {
            Ok(words) => words,
            Err(why) => return not_measured(&why, Vec::new()),
        };
        let is_member = group.iter().any(|host| host.name == launch.launcher.name);
        let guarded: Vec<&TestHost<'_>> =
            group.iter().copied().chain((!is_member).then_some(launch.launcher)).collect();
        let mut measured = match self.start_guards(&guarded, &unit).await {
            Err(_) if self.is_stopped() => not_measured(STOPPED, Vec::new()),
            Err(failed) => failed,
            Ok(()) => self.run_launcher(&launch, group, &unit, &words).await,
        };
        // A host that cannot be reached any more ends its processes by the limit of its guard.
        let stopped = join_all(guarded.iter().map(|host| self.run_script(host, build_guard_stop_script(&unit)))).await;
        let mut left = None;
        for (host, result) in guarded.iter().zip(stopped) {
            match result {
                Ok(done) if done_well(&done) => {}
                Ok(done) => {
                    left.get_or_insert_with(|| format!("`{}`: {}", name_of(host), describe_failure(&done)));
                }
                Err(error) if error.is_unreachable() && !measured.lost.contains(&host.name) => {
                    measured.lost.push(host.name.clone());
                }
                Err(_) => {}
            }
        }
        // A process that is left disturbs the next measurement, and this one may have waited for it.
        match (left, &measured.verdict) {
            (Some(why), TestVerdict::Pass { .. }) => {
                TestMeasurement { lost: measured.lost, ..not_measured(&why, measured.outputs) }
            }
            _ => measured,
        }
    }

    async fn start_guards(&self, hosts: &[&TestHost<'_>], unit: &str) -> Result<(), TestMeasurement> {
        let limit = self.time_limit_s() + GUARD_GRACE_S;
        let started = join_all(hosts.iter().map(|host| self.run_script(host, build_guard_script(unit, limit)))).await;
        let unguarded = |why: &str| format!("the test cannot be guarded on {why}");
        for (host, result) in hosts.iter().copied().zip(started) {
            match result {
                Ok(done) if done_well(&done) => {}
                Ok(done) => {
                    let why = format!("`{}`: {}", name_of(host), describe_failure(&done));
                    return Err(not_measured(&unguarded(&why), Vec::new()));
                }
                Err(error) => {
                    return Err(lose_host(host, &error, &unguarded(&describe_loss(host, &error)), Vec::new()));
                }
            }
        }
        Ok(())
    }

    async fn run_launcher(
        &self,
        launch: &GroupLaunch<'_>,
        group: &[&TestHost<'_>],
        unit: &str,
        words: &[String],
    ) -> TestMeasurement {
        if self.is_stopped() {
            return not_measured(STOPPED, Vec::new());
        }
        // The job has the name of the unit.
        let job = self.test.launch.as_slurm().map(|_| unit);
        let script = build_user_program_script((unit, self.time_limit_s()), &launch.user, job, words);
        match self.run_program(launch.launcher, unit, script).await {
            Ok(end) => self.judge(&end, Vec::new(), self.expect(group, None)),
            Err(error) => {
                let why = describe_loss(launch.launcher, &error);
                lose_host(launch.launcher, &error, &why, Vec::new())
            }
        }
    }

    fn group_parameters(
        &self,
        group: &[&TestHost<'_>],
        launch: &GroupLaunch<'_>,
        unit: &str,
    ) -> BTreeMap<String, String> {
        let hosts: Vec<String> = group.iter().map(|host| format!("{}:{}", host.address, launch.slots)).collect();
        let ranks = launch.slots * group.len() as u64;
        let own = [
            ("hosts", hosts.join(",")),
            ("ranks", ranks.to_string()),
            ("slots", launch.slots.to_string()),
            ("mark", format!("FORGE_TEST={unit}")),
        ];
        let mut parameters = self.test.parameters.clone();
        parameters.extend(own.map(|(name, value)| (name.to_owned(), value)));
        parameters
    }
}

fn name_of<'h>(host: &'h TestHost<'_>) -> &'h str {
    host.name.as_str()
}

fn done_well(done: &crate::engine::host_session::HostScriptOutput) -> bool {
    done.finished.status == 0
}
