//! Foreign work: detects processes that hold the host's devices, waits for them, and evicts them if the user permits
//! it.

use super::own_script::run_own_script;
use super::window_refusal::WindowRefusal;
use super::window_scripts;
use super::window_turn::await_window_turn;
use crate::engine::cancel::StopLevel;
use crate::engine::event::Event;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::facts::Facts;
use crate::model::UntrustedText;
use crate::plan::{self, DeviceHolder, HostWindow};
use crate::probe::{Observation, Probe};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval of checks while forge waits for holders.
const HOLDER_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The check for foreign work before a window opens or a host reboots.
pub(super) struct DeviceHolderCheck<'w> {
    pub window: &'w HostWindow,
    /// Whether the host reboots, which also stops the host's declared services: these are not foreign work.
    pub reboots: bool,
    /// Whether pods leave when the node is drained: then they are not foreign work either.
    pub pods_leave: bool,
    /// Whether the host is still in service. Then it lets other hosts go first while forge waits.
    pub in_service: bool,
}

impl DeviceHolderCheck<'_> {
    /// Returns when only units that the window stops hold the host's devices.
    ///
    /// # Errors
    /// Another process holds devices, or the holders could not be determined.
    pub async fn await_free_devices(&self, work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
        let run = work.run;
        let mut told = Vec::new();
        let until = Instant::now() + Duration::from_secs(run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            let foreign = self.find_foreign_holders(work).await?;
            if foreign.is_empty() {
                return Ok(());
            }
            let holders: Vec<UntrustedText> = foreign.iter().map(|holder| holder.description.clone()).collect();
            if let Some(why) = run.options.evict_busy.clone() {
                evict_holders(work, &foreign, holders, why).await?;
                return check_all_gone(&self.find_foreign_holders(work).await?);
            }
            if Instant::now() >= until {
                return Err(WindowRefusal::Busy(join_holders(&holders)));
            }
            if told != holders {
                run.emit_event(Event::Busy { host: work.host().clone(), holders: holders.clone() });
                told = holders;
            }
            self.pause_for_holders(work, until).await?;
        }
    }

    /// Waits for one interval. A host that is still in service lets other hosts go first meanwhile.
    async fn pause_for_holders(&self, work: &HostWork<'_>, until: Instant) -> Result<(), WindowRefusal> {
        let (run, host) = (work.run, work.host());
        if self.in_service {
            run.board.defer_window(host);
            run.times.pause(host);
        }
        let pause = HOLDER_POLL_INTERVAL.min(until.saturating_duration_since(Instant::now()));
        let stopped = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = run.cancel.wait_for_level(StopLevel::Finish) => true,
        };
        run.times.resume(host);
        match (stopped, self.in_service) {
            (true, _) => Err(WindowRefusal::Stopped),
            (false, true) => await_window_turn(run, host).await,
            (false, false) => Ok(()),
        }
    }

    /// Returns the holders of devices that are not units stopped by the window.
    async fn find_foreign_holders(&self, work: &mut HostWork<'_>) -> Result<Vec<DeviceHolder>, WindowRefusal> {
        let shared = work.run.board.shared_values();
        let probes = BTreeSet::from([Probe::Fact { name: "holders".to_owned() }]);
        let observation = work.link.observe(&probes, &shared.secrets).await?;
        let declared = if self.reboots { list_declared_units(work) } else { BTreeSet::new() };
        let stops = |unit: &str| declared.contains(unit) || self.window.stops.iter().any(|stop| stop.name == unit);
        let holders = parse_holders(&observation).map_err(|why| unknown_holders(&why))?;
        let leaves = |holder: &DeviceHolder| holder.unit.as_deref().is_some_and(stops) || self.pods_leave && holder.pod;
        let counts = |holder: &DeviceHolder| !leaves(holder);
        Ok(holders.into_iter().filter(counts).collect())
    }
}

/// Returns the units that are declared to run on this host.
fn list_declared_units(work: &HostWork<'_>) -> BTreeSet<String> {
    let shared = work.run.board.shared_values();
    let case = work.view.context(&shared);
    case.iter()
        .flat_map(|case| case.expand_local_steps())
        .filter_map(|turn| plan::declared_running_unit(&turn))
        .collect()
}

async fn evict_holders(
    work: &mut HostWork<'_>,
    foreign: &[DeviceHolder],
    holders: Vec<UntrustedText>,
    why: String,
) -> Result<(), WindowRefusal> {
    let pids: Vec<u32> = foreign.iter().map(|holder| holder.pid).collect();
    run_own_script(work, window_scripts::build_evict_script(&pids), SHORT_SCRIPT_LIMIT).await?;
    work.run.emit_event(Event::Evicted { host: work.host().clone(), holders, why });
    Ok(())
}

fn check_all_gone(left: &[DeviceHolder]) -> Result<(), WindowRefusal> {
    match left {
        [] => Ok(()),
        left => {
            let left: Vec<UntrustedText> = left.iter().map(|holder| holder.description.clone()).collect();
            Err(WindowRefusal::Busy(format!("still running after eviction: {}", join_holders(&left))))
        }
    }
}

fn unknown_holders(why: &str) -> WindowRefusal {
    WindowRefusal::Unknown(format!("use of the host's devices could not be determined: {why}"))
}

fn join_holders(holders: &[UntrustedText]) -> String {
    holders.iter().map(UntrustedText::raw).collect::<Vec<_>>().join("; ")
}

/// Returns a description of each process that holds the devices of a host out of service and that neither the inventory
/// nor a drained node explains: units that are declared to run, or that the window stops, and pods that a drain leaves.
///
/// # Errors
/// Returns why the holders are not known.
pub(in crate::engine) fn list_unexplained_holders(
    work: &HostWork<'_>,
    window: &HostWindow,
    observation: &Observation,
) -> Result<Vec<UntrustedText>, String> {
    let declared = list_declared_units(work);
    let is_own = |unit: &str| declared.contains(unit) || window.stops.iter().any(|stop| stop.name == unit);
    Ok(select_unexplained(parse_holders(observation)?, is_own, window.kubernetes.is_some()))
}

/// `pods_stay`: the pods that are left are those that a drain leaves.
fn select_unexplained(
    holders: Vec<DeviceHolder>,
    is_own: impl Fn(&str) -> bool,
    pods_stay: bool,
) -> Vec<UntrustedText> {
    let is_explained = |holder: &DeviceHolder| holder.unit.as_deref().is_some_and(&is_own) || pods_stay && holder.pod;
    holders.into_iter().filter(|holder| !is_explained(holder)).map(|holder| holder.description).collect()
}

/// Returns a description of each process that holds the host's devices.
///
/// # Errors
/// They could not be determined: the reason, as a lowercase fragment.
pub(in crate::engine) fn list_device_holders(observation: &Observation) -> Result<Vec<UntrustedText>, String> {
    Ok(parse_holders(observation)?.into_iter().map(|holder| holder.description).collect())
}

/// Returns a description of each process that holds the host's devices and is not part of a pod: a drain of the node
/// does not end it.
///
/// # Errors
/// They could not be determined: the reason, as a lowercase fragment.
pub(in crate::engine) fn list_lasting_holders(observation: &Observation) -> Result<Vec<UntrustedText>, String> {
    Ok(parse_holders(observation)?.into_iter().filter(|holder| !holder.pod).map(|holder| holder.description).collect())
}

/// Returns the holders of devices.
///
/// # Errors
/// They could not be determined: the reason, as a lowercase fragment.
fn parse_holders(observation: &Observation) -> Result<Vec<DeviceHolder>, String> {
    let facts = Facts::from_observation(observation);
    plan::parse_device_holders(&facts).ok_or("no answer")?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The daemons of the driver run again when a host is tested before its return.
    #[test]
    fn declared_units_and_pods_of_a_drained_node_do_not_keep_a_host_from_its_tests() {
        let holder = |pid: u32, unit: Option<&str>, pod| DeviceHolder {
            pid,
            unit: unit.map(str::to_owned),
            pod,
            description: format!("pid {pid}").into(),
        };
        let all = || {
            vec![
                holder(1, Some("nvidia-persistenced.service"), false),
                holder(2, Some("crio-1.scope"), true),
                holder(3, Some("session-4.scope"), false),
                holder(4, None, false),
            ]
        };
        let names = |pods_stay| {
            let left = select_unexplained(all(), |unit| unit == "nvidia-persistenced.service", pods_stay);
            left.iter().map(|told| told.raw().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["pid 3", "pid 4"]);
        assert_eq!(names(false), ["pid 2", "pid 3", "pid 4"]);
    }

    #[test]
    fn missing_probe_answer_does_not_mean_no_device_holders() {
        assert_eq!(parse_holders(&Observation::default()), Err("no answer".to_owned()));
    }
}
