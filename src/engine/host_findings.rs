//! Stores on hosts since when their drift findings exist, where that is declared.
//!
//! Architecture Invariant: drift observes with a `ReadOnlySession`, which cannot act. A [`HostFindingsWriter`] is another session, opened
//! only for a host whose findings changed; under the host's lock it can only replace that host's one file.

use super::host_session::{HostLockAttempt, HostSession, SHORT_SCRIPT_LIMIT, summarize_stderr};
use super::observed_hosts::ObservedHosts;
use super::run_options::{RunOptions, SessionRequest};
use super::session_connector::OpenSession;
use crate::config::Project;
use crate::drift::{self, FindingHistory, HostFindingsFile};
use crate::model::{HostName, SecretStore, findings_file_name};
use crate::plan::ObservedHost;
use crate::probe::{Probe, ProbeReading};
use crate::state::{DriftLog, build_kept_file_script};
use crate::transport::TransportError;
use futures_util::StreamExt;

/// A session that can only replace the file of a host's findings.
struct HostFindingsWriter(Box<dyn HostSession>);

/// Returns the findings to store on a host; `None` if it stores none.
pub(super) fn read_kept_findings(project: &Project, seen: &ObservedHost, now: &str) -> Option<HostFindingsFile> {
    let Ok(ProbeReading::Records(state)) = seen.observation.get(&Probe::Records) else { return None };
    let text = state.records.get(&findings_file_name(&project.cluster))?;
    HostFindingsFile::parse(text.raw(), &project.cluster, &seen.host, now)
}

/// Stores the findings on every host on which they changed. Returns the hosts on which that failed, with the reasons.
pub async fn store_host_findings(
    project: &Project,
    observed: &ObservedHosts,
    options: &RunOptions,
    log: &DriftLog,
) -> Vec<(HostName, String)> {
    if !project.drift.first_seen_on_host {
        return Vec::new();
    }
    // Without a history the start of findings is unknown: `no_history` of this run contains the reason.
    let Ok(lines) = log.read_lines(None) else { return Vec::new() };
    let past = FindingHistory::from_entries(&drift::parse_history_entries(lines.iter().map(String::as_str)));
    let now = (options.clock)().to_string();
    let due = observed.seen.iter().filter(|seen| seen.is_observed() && !seen.host.is_cluster()).filter_map(|seen| {
        let (wanted, there) =
            (past.to_host_file(&project.cluster, &seen.host), read_kept_findings(project, seen, &now));
        let same = there.as_ref().map_or(wanted.is_empty(), |there| *there == wanted);
        (!same).then_some((&seen.host, wanted))
    });
    let work = due.map(|(host, wanted)| async move {
        let failed = replace_findings(project, host, &wanted, options).await.err();
        failed.map(|why| (host.clone(), why))
    });
    let results: Vec<_> = futures_util::stream::iter(work).buffered(options.parallel.max(1)).collect().await;
    results.into_iter().flatten().collect()
}

async fn replace_findings(
    project: &Project,
    host: &HostName,
    wanted: &HostFindingsFile,
    options: &RunOptions,
) -> Result<(), String> {
    let plain = |error: TransportError| error.to_string();
    let keeper = HostFindingsWriter(
        <dyn HostSession>::open(SessionRequest { project, options, host, secrets: &project.secrets, logs_in: false })
            .await
            .map_err(plain)?,
    );
    let (done, link) = keeper.replace_file(project, wanted, options).await;
    link.close().await;
    done
}

impl HostFindingsWriter {
    async fn replace_file(
        mut self,
        project: &Project,
        wanted: &HostFindingsFile,
        options: &RunOptions,
    ) -> (Result<(), String>, Box<dyn HostSession>) {
        let done = self.replace_under_lock(project, wanted, options).await;
        (done, self.0)
    }

    async fn replace_under_lock(
        &mut self,
        project: &Project,
        wanted: &HostFindingsFile,
        options: &RunOptions,
    ) -> Result<(), String> {
        match self.0.take_lock(&options.build_lock_owner("drift", project)).await.map_err(|error| error.to_string())? {
            HostLockAttempt::Ours => {}
            HostLockAttempt::Held(_) | HostLockAttempt::Busy(_) => {
                return Err("this host is locked by another run".to_owned());
            }
        }
        let content = (!wanted.is_empty()).then(|| wanted.to_json());
        let script = build_kept_file_script(&findings_file_name(&project.cluster), content);
        let done = self
            .0
            .run_acting_script(script, SHORT_SCRIPT_LIMIT.into(), &SecretStore::default())
            .await
            .map_err(|error| error.to_string())?;
        match done.finished.status {
            0 => Ok(()),
            status => Err(format!("exited with {status}: {}", summarize_stderr(&done.finished.stderr))),
        }
    }
}
