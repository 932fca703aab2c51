//! Foreign work: who holds the host's devices, waiting for them, and ending them where the user says so.

use super::{Shut, script};
use crate::engine::cancel::Stop;
use crate::engine::event::Event;
use crate::engine::host::HostRun;
use crate::engine::link::SHORT;
use crate::model::Untrusted;
use crate::plan::{self, Window};
use crate::probe::{Consumer, Holder, Probe, Reading};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often holders are looked for while they are waited for.
const PAUSE: Duration = Duration::from_secs(5);

impl HostRun<'_> {
    /// Returns once nobody holds the host's devices but units that the window stops. A reboot stops the services that
    /// the host is declared to run as well: those are nobody else's work.
    ///
    /// # Errors
    /// Somebody does, or it cannot be told.
    pub(super) async fn free(&mut self, window: &Window, reboots: bool) -> Result<(), Shut> {
        let mut told = Vec::new();
        let until = Instant::now() + Duration::from_secs(self.run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            let foreign = self.foreign(window, reboots).await?;
            if foreign.is_empty() {
                return Ok(());
            }
            let holders: Vec<Untrusted> = foreign.iter().map(Holder::told).collect();
            if let Some(why) = self.run.options.evict_busy.clone() {
                self.evict(&foreign, holders, why).await?;
                return gone(&self.foreign(window, reboots).await?);
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
        let aside = !self.passage.open && !self.drained;
        if aside {
            self.run.board.hold_up(self.host());
        }
        let pause = PAUSE.min(until.saturating_duration_since(Instant::now()));
        let stopped = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = self.run.cancel.reached(Stop::Finish) => true,
        };
        match (stopped, aside) {
            (true, _) => Err(Shut::Stopped),
            (false, true) => self.take_turn().await,
            (false, false) => Ok(()),
        }
    }

    /// Returns who holds devices and is none of the units that the window stops.
    async fn foreign(&mut self, window: &Window, reboots: bool) -> Result<Vec<Holder>, Shut> {
        let shared = self.run.board.shared();
        let probes = BTreeSet::from([Probe::Holders]);
        let observation = match self.link.observe(&probes, &shared.secrets).await {
            Ok(observation) => observation,
            Err(error) => {
                self.lost = Some(error);
                return Err(Shut::Stopped);
            }
        };
        let declared = if reboots { self.services() } else { BTreeSet::new() };
        let stops = |unit: &str| declared.contains(unit) || window.stops.iter().any(|stop| stop.name == unit);
        let own = |holder: &Holder| matches!(&holder.consumer, Consumer::Unit(unit) if stops(unit.raw()));
        match observation.get(&Probe::Holders) {
            Ok(Reading::Holders(holders)) => Ok(holders.iter().filter(|holder| !own(holder)).cloned().collect()),
            Ok(_) => Err(unknown("it was answered with something else")),
            Err(why) => Err(unknown(&why.why)),
        }
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
            let left: Vec<Untrusted> = left.iter().map(Holder::told).collect();
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
