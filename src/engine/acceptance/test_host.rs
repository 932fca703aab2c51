//! A host that takes part: its session with the writer lock, and its adapters.

use crate::acceptance::{DeclaredBasis, ObservedBasis, PcieLink, ProofBasis, port_ceiling};
use crate::config::Project;
use crate::engine::host_session::{HostLockAttempt, HostSession, LeftoverWork, describe_transport_error};
use crate::engine::run_options::{RunOptions, SessionRequest};
use crate::engine::session_connector::OpenSession;
use crate::engine::window::{TestWindow, join_reasons, list_device_holders, list_lasting_holders};
use crate::facts::Facts;
use crate::model::{HostName, UntrustedText, Value, proofs_file_name};
use crate::plan::OngoingWork;
use crate::probe::{Observation, Probe, ProbeReading};
use crate::transport::{LockOwner, TransportError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::report::SkippedHost;
use super::test_cluster::TestCluster;

/// The session of a tested host.
pub(super) enum TestSession<'s> {
    /// Opened for the tests.
    Own(Box<dyn HostSession>),
    /// Of a run that works on the host.
    Lent(&'s (dyn HostSession + 'static)),
}

impl Deref for TestSession<'_> {
    type Target = dyn HostSession;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(session) => &**session,
            Self::Lent(session) => *session,
        }
    }
}

impl TestSession<'_> {
    /// Takes the lock of the host, which the owner of a lent session holds.
    async fn take_lock(&mut self, owner: &LockOwner) -> Result<HostLockAttempt, TransportError> {
        match self {
            Self::Own(session) => session.take_lock(owner).await,
            Self::Lent(_) => Ok(HostLockAttempt::Ours),
        }
    }

    /// Closes a session that was opened for the tests.
    pub async fn close(self) {
        if let Self::Own(session) = self {
            session.close().await;
        }
    }
}

/// A host that is not tested.
pub(super) struct RefusedHost {
    pub skipped: SkippedHost,
    /// Whether it is a sandbox, or reported that its hardware is simulated.
    pub simulated: bool,
}

/// A host whose lock this run holds.
pub(super) struct TestHost<'s> {
    pub name: HostName,
    pub link: TestSession<'s>,
    /// The address that other hosts connect to.
    pub address: String,
    /// Adapters with an active port, by the name of the device, with what the port and its slot can carry in Gb/s.
    pub adapters: BTreeMap<String, Option<f64>>,
    /// Its file of proofs, as it is.
    pub proofs: Option<UntrustedText>,
    /// Whether it reported that its hardware is simulated.
    pub simulated: bool,
    facts: Facts,
}

/// Connects to a host, takes its lock, reads `facts`, and checks that no foreign work uses its devices.
///
/// # Errors
/// Returns why the host is not tested.
pub(super) async fn open_test_host(
    project: &Project,
    options: &RunOptions,
    name: &HostName,
    facts: &BTreeSet<&'static str>,
    service: TestService<'_, '_>,
) -> Result<TestHost<'static>, RefusedHost> {
    let refuse = |reason: UntrustedText, unreachable, simulated| RefusedHost {
        skipped: SkippedHost { host: name.clone(), reason, unreachable },
        simulated,
    };
    if project.is_simulated(name) {
        return Err(refuse("a sandbox cannot be measured".into(), false, true));
    }
    let request = SessionRequest { project, options, host: name, secrets: &project.secrets, logs_in: false };
    let link = <dyn HostSession>::open(request)
        .await
        .map_err(|error| refuse(describe_transport_error(&error), true, false))?;
    let mut host = TestHost::new(project, name, TestSession::Own(link));
    match host.prepare(project, options, facts, service).await {
        Ok(()) => Ok(host),
        Err(reason) => {
            let simulated = host.simulated;
            host.link.close().await;
            Err(refuse(reason, false, simulated))
        }
    }
}

fn find_address(project: &Project, name: &HostName) -> String {
    let declared = project.hosts.get(name).map(|host| host.connect.address.clone());
    declared.filter(|address| !address.is_empty()).unwrap_or_else(|| name.as_str().to_owned())
}

/// Returns the probes that tests need, with the facts that their results and programs depend on.
pub(super) fn list_test_probes(facts: &BTreeSet<&'static str>) -> BTreeSet<Probe> {
    let names = ["holders", "rdma", "boot", "simulated"].into_iter().chain(facts.iter().copied());
    let facts = names.map(|name| Probe::Fact { name: name.to_owned() });
    facts.chain([Probe::Records]).collect()
}

impl<'s> TestHost<'s> {
    /// Returns a host of which nothing was read yet.
    pub fn new(project: &Project, name: &HostName, link: TestSession<'s>) -> Self {
        Self {
            name: name.clone(),
            link,
            address: find_address(project, name),
            adapters: BTreeMap::new(),
            proofs: None,
            simulated: false,
            facts: Facts::default(),
        }
    }

    /// Returns a host without adapters and facts.
    #[cfg(test)]
    pub fn answering(name: &str, link: impl HostSession + 'static) -> Self {
        let (name, address, link) = (HostName::new(name), name.to_owned(), TestSession::Own(Box::new(link)));
        let (adapters, facts) = (BTreeMap::new(), Facts::default());
        Self { name, link, address, adapters, proofs: None, simulated: false, facts }
    }

    /// Replaces the facts that were read.
    #[cfg(test)]
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    /// Returns the values that a result rests on. What could not be read is left out.
    pub fn read_basis(&self, declared: &DeclaredBasis) -> ProofBasis {
        ObservedBasis::read(declared, &self.facts).basis
    }

    async fn prepare(
        &mut self,
        project: &Project,
        options: &RunOptions,
        facts: &BTreeSet<&'static str>,
        service: TestService<'_, '_>,
    ) -> Result<(), UntrustedText> {
        let lock = self.link.take_lock(&options.build_lock_owner("test", project)).await;
        match lock.map_err(|error| describe_transport_error(&error))? {
            HostLockAttempt::Ours => {}
            HostLockAttempt::Held(owner) => {
                return Err(format!("locked by another run: {}", LockOwner::describe_owner(&owner).raw()).into());
            }
            HostLockAttempt::Busy(work) => return Err(self.describe_leftover(project, &work).await),
        }
        // They would use the host's devices.
        service.cluster.remove_leftovers(&self.name).await?;
        let mut service = service;
        if let Some(window) = service.window.as_deref_mut() {
            self.take_out_of_service(project, window, service.drains).await?;
        }
        let checked = self.check_and_read(project, facts, service.cluster.runs_jobs_only()).await;
        match (checked, service.window) {
            (Err(why), Some(window)) => Err(self.give_back_unmeasured(window, why).await),
            (checked, _) => checked,
        }
    }

    /// Names what an earlier run left running. The lock knows only the unit; the host also knows its start.
    pub async fn describe_leftover(&self, project: &Project, work: &LeftoverWork) -> UntrustedText {
        let unit = match work {
            LeftoverWork::Script(owner) => {
                return format!("a script is still running here: {}", LockOwner::describe_owner(owner).raw()).into();
            }
            LeftoverWork::Unit(unit) => unit.raw(),
        };
        let observation = self.link.observe(&BTreeSet::from([Probe::Records]), &project.secrets).await;
        let is_unit = |(name, _): &&(String, UntrustedText)| name.strip_suffix(".service") == Some(unit);
        let found = match observation.as_ref().map(|observation| observation.get(&Probe::Records)) {
            Ok(Ok(ProbeReading::Records(state))) => state.running.iter().find(is_unit).cloned(),
            _ => None,
        };
        let (name, since) = found.unwrap_or_else(|| (unit.to_owned(), UntrustedText::default()));
        OngoingWork::Unit { name, since }.describe().into()
    }

    /// Closes the window of a host that is not tested. Returns the reason, with that of a window that stays open.
    async fn give_back_unmeasured(&self, window: &mut TestWindow<'_>, why: UntrustedText) -> UntrustedText {
        match window.close(&*self.link, None).await {
            Ok(()) => why,
            Err(stuck) => join_reasons(&why, &stuck),
        }
    }

    /// Drains the host's node, or takes over the window that an earlier run of tests left open.
    async fn take_out_of_service(
        &mut self,
        project: &Project,
        window: &mut TestWindow<'_>,
        drains: bool,
    ) -> Result<(), UntrustedText> {
        let [holders, simulated] = ["holders", "simulated"].map(|name| Probe::Fact { name: name.to_owned() });
        let probes = BTreeSet::from([holders, simulated, Probe::Records]);
        let observation = self.link.observe(&probes, &project.secrets).await;
        let observation = observation.map_err(|error| describe_transport_error(&error))?;
        self.note_simulated(&observation);
        if let Ok(ProbeReading::Records(state)) = observation.get(&Probe::Records)
            && let Some(mark) = state.window.as_ref().filter(|mark| drains || TestWindow::is_left_by_tests(mark))
        {
            window.adopt(mark)?;
        }
        if !drains {
            return Ok(());
        }
        let in_use = if window.awaits_jobs() { Ok(()) } else { refuse_in_use(list_lasting_holders(&observation)) };
        match in_use {
            Ok(()) => window.open(&*self.link).await,
            Err(why) => Err(self.give_back_unmeasured(window, why).await),
        }
    }

    /// Checks that nothing uses the host's devices, and reads what results and programs depend on.
    /// Pods that hold them are left to the cluster if jobs measure the host: they get devices that are free.
    async fn check_and_read(
        &mut self,
        project: &Project,
        facts: &BTreeSet<&'static str>,
        by_jobs: bool,
    ) -> Result<(), UntrustedText> {
        let observation = self.link.observe(&list_test_probes(facts), &project.secrets).await;
        let observation = observation.map_err(|error| describe_transport_error(&error))?;
        self.note_simulated(&observation);
        let holders = if by_jobs { list_lasting_holders(&observation) } else { list_device_holders(&observation) };
        refuse_in_use(holders)?;
        self.read_observation(project, &observation);
        Ok(())
    }

    /// Notes whether the host reports simulated hardware, also if it is not tested after all.
    fn note_simulated(&mut self, observation: &Observation) {
        self.simulated |= Facts::from_observation(observation).is_hardware_simulated();
    }

    /// Takes over the answers to [`list_test_probes`].
    pub fn read_observation(&mut self, project: &Project, observation: &Observation) {
        if let Ok(ProbeReading::Records(state)) = observation.get(&Probe::Records) {
            self.proofs = state.records.get(&proofs_file_name(&project.cluster)).cloned();
        }
        self.facts = Facts::from_observation(observation);
        if let Some(Ok(devices)) = self.facts.0.get("rdma") {
            self.adapters = read_adapters(devices);
        }
    }

    /// Returns the facts that were read before the tests.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the id of the host's boot.
    pub fn boot_id(&self) -> Option<&str> {
        self.facts.boot_id()
    }
}

/// How a host is taken out of service and given back.
pub(super) struct TestService<'s, 'r> {
    /// The window of its node; `None` if the host is not declared to be one.
    pub window: Option<&'s mut TestWindow<'r>>,
    /// Whether the node is drained. If not, only a window that an earlier run left open is closed.
    pub drains: bool,
    /// The cluster in which earlier runs may have left jobs on the host.
    pub cluster: &'s TestCluster<'r>,
}

/// Refuses a host whose devices processes hold.
pub(super) fn refuse_in_use(holders: Result<Vec<UntrustedText>, String>) -> Result<(), UntrustedText> {
    let holders = holders.map_err(|why| format!("use of its devices could not be determined: {why}"))?;
    match holders.first() {
        Some(first) => Err(format!("in use: {}", first.raw()).into()),
        None => Ok(()),
    }
}

/// Returns the devices with an active port, except those that manage NVSwitches.
fn read_adapters(devices: &Value) -> BTreeMap<String, Option<f64>> {
    let list = devices.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_adapter = |device: &&Value| device.get("bridge").and_then(Value::as_bool) != Some(true);
    list.iter().filter(is_adapter).filter_map(read_adapter).collect()
}

fn read_adapter(device: &Value) -> Option<(String, Option<f64>)> {
    let name = device.get("name")?.as_str()?;
    let ports = device.get("ports")?.as_array()?;
    let active = ports.iter().find(|port| port.get("state").and_then(Value::as_str) == Some("ACTIVE"))?;
    let slot = read_slot(device);
    Some((name.to_owned(), active.get("rate").and_then(Value::as_f64).map(|rate| port_ceiling(rate, slot))))
}

/// Returns what the slot can do. A slot that negotiated fewer lanes must not lower the expectation: the test finds it.
fn read_slot(device: &Value) -> Option<PcieLink> {
    let pcie = device.get("pcie")?;
    PcieLink::from_speed(pcie.get("max_speed")?.as_str()?, pcie.get("max_width")?.as_u64()?.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn active_adapters_are_rails() {
        let devices = json!([
            {"name": "mlx5_0", "bridge": false, "ports": [{"state": "ACTIVE", "rate": 400.0}]},
            {"name": "mlx5_1", "bridge": null, "ports": [{"state": "DOWN", "rate": null}]},
            {"name": "mlx5_4", "bridge": true, "ports": [{"state": "ACTIVE", "rate": 400.0}]},
        ]);
        assert_eq!(read_adapters(&devices), BTreeMap::from([("mlx5_0".to_owned(), Some(400.0))]));
        assert_eq!(read_adapters(&Value::Null), BTreeMap::new());
    }

    #[test]
    fn slot_limits_a_port_by_what_it_can_do_and_not_by_what_it_negotiated() {
        let ceiling = |width: u8, max_width: u8, speed: &str| {
            let devices = json!([{ "name": "mlx5_0", "ports": [{ "state": "ACTIVE", "rate": 400.0 }],
                "pcie": { "width": width, "max_width": max_width, "max_speed": speed } }]);
            read_adapters(&devices)["mlx5_0"].unwrap().round()
        };
        assert_eq!(ceiling(16, 16, "32.0 GT/s PCIe"), 400.0);
        assert_eq!(ceiling(8, 16, "32.0 GT/s PCIe"), 400.0, "half of the lanes are a fault");
        assert_eq!(ceiling(16, 16, "16.0 GT/s PCIe"), 252.0);
    }
}
