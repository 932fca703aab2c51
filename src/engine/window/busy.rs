//! Foreign work: who holds the host's devices, waiting for them, and ending them where the user says so.

use super::{Shut, script};
use crate::engine::cancel::Stop;
use crate::engine::event::Event;
use crate::engine::glance::Asked;
use crate::engine::host::HostRun;
use crate::engine::link::SHORT;
use crate::facts::Facts;
use crate::model::{Untrusted, Value};
use crate::plan::{self, Window};
use crate::probe::{Observation, Probe};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often holders are looked for while they are waited for.
const PAUSE: Duration = Duration::from_secs(5);

/// A process that holds GPU or RDMA devices, as the fact `holders` tells of it.
#[derive(Clone, Debug, PartialEq)]
struct Holder {
    pid: u32,
    unit: Option<String>,
    /// Whether it is part of a pod.
    pod: bool,
    /// All of it in a line.
    told: Untrusted,
}

impl HostRun<'_> {
    /// Returns once nobody holds the host's devices but units that the window stops. A reboot stops the services that
    /// the host is declared to run as well: those are nobody else's work. With `pods_leave`, neither do pods count.
    ///
    /// # Errors
    /// Somebody does, or it cannot be told.
    pub(super) async fn free(&mut self, window: &Window, reboots: bool, pods_leave: bool) -> Result<(), Shut> {
        let mut told = Vec::new();
        let until = Instant::now() + Duration::from_secs(self.run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            let foreign = self.foreign(window, reboots, pods_leave).await?;
            if foreign.is_empty() {
                return Ok(());
            }
            let holders: Vec<Untrusted> = foreign.iter().map(|holder| holder.told.clone()).collect();
            if let Some(why) = self.run.options.evict_busy.clone() {
                self.evict(&foreign, holders, why).await?;
                return gone(&self.foreign(window, reboots, pods_leave).await?);
            }
            if Instant::now() >= until {
                return Err(Shut::Busy(all(&holders)));
            }
            if told != holders {
                self.run.say(Event::Busy { host: self.host().clone(), holders: holders.clone() });
                told = holders;
            }
            self.pause(until).await?;
        }
    }

    /// Waits a while. A host that is not out of service yet lets others go first meanwhile.
    async fn pause(&mut self, until: Instant) -> Result<(), Shut> {
        let aside = !self.passage.open && !self.drained && !self.cordoned;
        if aside {
            self.run.board.hold_up(self.host());
            self.run.times.pause(self.host());
        }
        let pause = PAUSE.min(until.saturating_duration_since(Instant::now()));
        let stopped = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = self.run.cancel.reached(Stop::Finish) => true,
        };
        self.run.times.resume(self.host());
        match (stopped, aside) {
            (true, _) => Err(Shut::Stopped),
            (false, true) => self.take_turn().await,
            (false, false) => Ok(()),
        }
    }

    /// Returns who holds devices and is none of the units that the window stops.
    async fn foreign(&mut self, window: &Window, reboots: bool, pods_leave: bool) -> Result<Vec<Holder>, Shut> {
        let shared = self.run.board.shared();
        let probes = BTreeSet::from([Probe::Fact { name: "holders".to_owned() }]);
        let observation = match self.link.observe(&probes, &shared.secrets).await {
            Ok(observation) => observation,
            Err(error) => {
                self.lost = Some(error);
                return Err(Shut::Stopped);
            }
        };
        let declared = if reboots { self.services() } else { BTreeSet::new() };
        let stops = |unit: &str| declared.contains(unit) || window.stops.iter().any(|stop| stop.name == unit);
        let holders = holders(&observation).map_err(|why| unknown(&why))?;
        let leaves = |holder: &Holder| holder.unit.as_deref().is_some_and(stops) || pods_leave && holder.pod;
        let counts = |holder: &Holder| !leaves(holder);
        Ok(holders.into_iter().filter(counts).collect())
    }

    /// Returns the units that are declared to run here.
    fn services(&self) -> BTreeSet<String> {
        let shared = self.run.board.shared();
        let case = self.run.case(&shared, self.host(), &self.seen);
        case.iter().flat_map(|case| case.turns()).filter_map(|turn| plan::runs_unit(&turn)).collect()
    }

    async fn evict(&mut self, foreign: &[Holder], holders: Vec<Untrusted>, why: String) -> Result<(), Shut> {
        let pids: Vec<u32> = foreign.iter().map(|holder| holder.pid).collect();
        self.own_script(script::evict(&pids), SHORT).await?;
        self.run.say(Event::Evicted { host: self.host().clone(), holders, why });
        Ok(())
    }
}

fn gone(left: &[Holder]) -> Result<(), Shut> {
    match left {
        [] => Ok(()),
        left => {
            let left: Vec<Untrusted> = left.iter().map(|holder| holder.told.clone()).collect();
            Err(Shut::Busy(format!("still there after they were ended: {}", all(&left))))
        }
    }
}

fn unknown(why: &str) -> Shut {
    Shut::Unknown(format!("whether somebody holds the host's devices is not known: {why}"))
}

fn all(holders: &[Untrusted]) -> String {
    holders.iter().map(Untrusted::raw).collect::<Vec<_>>().join("; ")
}

/// Returns who holds devices.
///
/// # Errors
/// It cannot be told: why, as a lowercase fragment.
fn holders(observation: &Observation) -> Result<Vec<Holder>, String> {
    let facts = Facts::from_observation(observation);
    let list = match facts.0.get("holders") {
        Some(Ok(list)) => list.as_array().ok_or("it was answered with something else")?,
        Some(Err(unknown)) => return Err(unknown.why.to_string()),
        None => return Err("it was not answered".to_owned()),
    };
    list.iter().map(|value| holder(value).ok_or_else(|| "a holder has no number".to_owned())).collect()
}

fn holder(value: &Value) -> Option<Holder> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let pid = value.get("pid")?.as_u64()?.try_into().ok()?;
    let (pod, job, unit) = (text("pod"), text("slurm_job"), text("unit"));
    let whose = job.map(|job| format!(", Slurm job {job}"));
    let whose = whose.or_else(|| pod.map(|pod| format!(", pod {pod}"))).or_else(|| unit.map(|u| format!(", unit {u}")));
    let devices = value.get("devices")?.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let (command, user) = (text("command").unwrap_or("?"), text("user").unwrap_or("somebody"));
    let told = format!("pid {pid} ({command}) of {user}{}, holds {devices}", whose.unwrap_or_default());
    Some(Holder { pid, unit: unit.map(str::to_owned), pod: pod.is_some(), told: told.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_holder_is_told_with_all_that_is_known() {
        let told = |value: &Value| holder(value).map(|holder| holder.told.raw().to_owned());
        let job = json!({"pid": 4711, "user": "alice", "command": "python3", "devices": ["/dev/nvidia0", "/dev/nvidiactl"],
            "unit": null, "pod": null, "slurm_job": "123"});
        let line = "pid 4711 (python3) of alice, Slurm job 123, holds /dev/nvidia0, /dev/nvidiactl";
        assert_eq!(told(&job).as_deref(), Some(line));
        let pod = json!({"pid": 8, "user": "root", "command": "x", "devices": ["/dev/nvidia1"], "pod": "ml/train", "unit": "k.service"});
        assert_eq!(told(&pod).as_deref(), Some("pid 8 (x) of root, pod ml/train, holds /dev/nvidia1"));
        assert_eq!(told(&json!({"user": "root", "devices": []})), None);
    }

    #[test]
    fn whoever_cannot_tell_does_not_say_that_nobody_does() {
        assert_eq!(holders(&Observation::default()), Err("it was not answered".to_owned()));
    }
}
