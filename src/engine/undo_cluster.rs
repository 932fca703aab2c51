//! Reads the undo journal of the cluster, and the present state of what a run changed there.

use super::cluster_session::{observe_cluster, open_cluster_reader};
use super::run_options::RunOptions;
use super::undo_recipe::{HostJournal, JournalGroup};
use super::undo_request::UndoSelection;
use crate::config::Project;
use crate::kube::{ClusterReader, KeptClusterStep};
use crate::model::UndoDeclaration;
use crate::probe::{Observation, Probe};
use crate::resource::build_cluster_undo;
use crate::state::UndoGroup;
use crate::transport::TransportError;
use std::collections::BTreeSet;

/// Why the journal of the cluster is not known: a lowercase fragment.
pub(super) enum ClusterJournalError {
    /// The API does not answer.
    Silent(String),
    /// The API answered, but not with a journal.
    Refused(String),
}

/// Reads what the cluster kept before a run.
///
/// # Errors
/// The API does not answer or refuses the request, or the journal cannot be read.
pub(super) async fn read_cluster_journal(
    project: &Project,
    selection: UndoSelection<'_>,
    options: &RunOptions,
) -> Result<HostJournal, ClusterJournalError> {
    let silent = |error: TransportError| ClusterJournalError::Silent(error.message);
    let reader = open_cluster_reader(project, options).await.map_err(silent)?;
    let read = read_with(&reader, project, selection).await;
    reader.close().await;
    read
}

async fn read_with(
    reader: &ClusterReader,
    project: &Project,
    selection: UndoSelection<'_>,
) -> Result<HostJournal, ClusterJournalError> {
    let refused = |why: String| ClusterJournalError::Refused(why);
    let kept = reader.read_undo_journals(selection.run).await.map_err(|error| refused(error.message))?;
    let mut journal = HostJournal::default();
    journal.later.add_undone(kept.undone);
    for step in kept.steps {
        let group = parse_journal_step(&step).ok_or_else(|| refused("the undo journal cannot be read".to_owned()))?;
        match step.run == selection.run {
            true => journal.groups.push(group),
            false => journal.later.add_group(group.group),
        }
    }
    let steps = journal.groups.iter().flat_map(|group| &group.group.steps);
    let probes: BTreeSet<Probe> = steps.flat_map(|step| &step.effect.steps).flat_map(list_probes).collect();
    journal.seen = match probes.is_empty() {
        true => Observation::default(),
        false => observe_cluster(reader, &probes, false, &project.secrets)
            .await
            .map_err(|error| ClusterJournalError::Silent(error.message))?,
    };
    Ok(journal)
}

fn parse_journal_step(step: &KeptClusterStep) -> Option<JournalGroup> {
    let group = UndoGroup::parse(step.group.raw())?;
    Some(JournalGroup {
        number: step.number,
        group,
        created: step.created.clone().unwrap_or_default(),
        since: step.since.clone(),
        ..JournalGroup::default()
    })
}

/// Returns the probes of a declaration. One that is not valid is refused later.
fn list_probes(declared: &UndoDeclaration) -> Vec<Probe> {
    build_cluster_undo(declared).map(|resource| resource.probes()).unwrap_or_default()
}
