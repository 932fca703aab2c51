//! The undo journal of the cluster: the state before each change of a run, in ConfigMaps next to forge's records.
//!
//! A run has one ConfigMap, and further ones where an object of the API could not hold all. The writer adds the state
//! before a step before the step's first call; so it exists whatever happens to forge.

use super::api::FIELD_MANAGER;
use super::records::own_object_name;
use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use super::{ClusterReader, ClusterWriter, KubeError};
use crate::model::{UndoRetention, UntrustedText, Value};
use crate::object::ObjectId;
use crate::state::{UndoGroup, UndoneStep};
use ::kube::core::params::ListParams;
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};

/// The label of every journal, with the ID of its run.
const RUN_LABEL: &str = "forge/undo-run";

const UNDONE_PREFIX: &str = "undone.";

/// Size limit of one ConfigMap, in bytes. The API rejects objects above 1 MiB.
const MAX_PART_BYTES: usize = 900 * 1024;

/// Where a run writes its next entry.
#[derive(Debug, Default)]
pub struct ClusterUndoLog {
    /// The number of the next step.
    next: u64,
    part: u32,
    /// The size of the part, in bytes; `None` if it does not exist yet.
    used: Option<usize>,
}

/// What the cluster keeps of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptClusterStep {
    /// The ID of the run.
    pub run: String,
    /// Its position in the run.
    pub number: u64,
    /// An [`UndoGroup`] as JSON.
    pub group: UntrustedText,
    /// The uids of the objects that the step created, by their claims; `None` if the step did not end.
    pub created: Option<BTreeMap<String, String>>,
    /// When the journal of the run was begun. RFC 3339, by the API's clock.
    pub since: String,
}

/// What the cluster keeps of a run and of later ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptClusterJournals {
    /// In the order of the runs.
    pub steps: Vec<KeptClusterStep>,
    /// The steps whose change was undone.
    pub undone: Vec<UndoneStep>,
}

/// One ConfigMap of a journal.
struct JournalPart {
    id: ObjectId,
    run: String,
    part: u32,
    uid: String,
    created: String,
}

fn part_name(cluster: &str, run: &str, part: u32) -> String {
    format!("{}-{}-{part}", own_object_name("undo", cluster), run.to_ascii_lowercase())
}

fn entry_key(number: u64) -> String {
    format!("{number}.json")
}

/// The key of the steps that another run undid.
fn undone_key(by: &str) -> String {
    format!("{UNDONE_PREFIX}{by}")
}

fn note_key(number: u64) -> String {
    format!("{number}.created")
}

impl ClusterReader {
    fn journal_place(&self) -> ApiCollection {
        self.cluster.locate_own_object("ConfigMap", "").0
    }

    /// Reads the journals of a run and of all later ones, in the order of the runs.
    ///
    /// # Errors
    /// The API refuses the request.
    pub async fn read_undo_journals(&self, run: &str) -> Result<KeptClusterJournals, KubeError> {
        let place = self.journal_place();
        let listed = self.cluster.list_objects(&place, Some(self.cluster.namespace()), Some(RUN_LABEL), None).await;
        let maps = listed.map_err(|refusal| refusal.into_kube_error(self.cluster.server()))?;
        let own = maps.iter().filter_map(|map| Some((self.identify_part(map)?, map)));
        let mut kept = KeptClusterJournals::default();
        for (part, map) in own.filter(|(part, _)| part.run.as_str() >= run) {
            kept.steps.extend(parse_part(&part, map));
            kept.undone.extend(parse_undone(map));
        }
        kept.steps.sort_by(|a, b| (&a.run, a.number).cmp(&(&b.run, b.number)));
        Ok(kept)
    }

    /// Returns the identity of a ConfigMap if it is part of a journal of this inventory's cluster: other inventories may
    /// use the same namespace.
    fn identify_part(&self, map: &Value) -> Option<JournalPart> {
        let text = |pointer: &str| map.pointer(pointer).and_then(Value::as_str);
        let (name, run) = (text("/metadata/name")?, map["metadata"]["labels"][RUN_LABEL].as_str()?);
        let part = name.rsplit_once('-')?.1.parse().ok()?;
        let (_, id) = self.cluster.locate_own_object("ConfigMap", name);
        let created = text("/metadata/creationTimestamp").unwrap_or_default().to_owned();
        let uid = text("/metadata/uid").unwrap_or_default().to_owned();
        (name == part_name(&self.name, run, part)).then(|| JournalPart { id, run: run.to_owned(), part, uid, created })
    }

    async fn list_journal_parts(&self) -> Result<Vec<JournalPart>, ApiRequestError> {
        let params = ListParams::default().labels(RUN_LABEL);
        let request = self.journal_place().collection_request(Some(self.cluster.namespace())).list_metadata(&params);
        let request = request.map_err(|error| ApiRequestError::Local(error.to_string()))?;
        let list = self.cluster.try_request(self.cluster.client().request::<Value>(request)).await?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|map| self.identify_part(map)).collect())
    }
}

fn parse_part(part: &JournalPart, map: &Value) -> Vec<KeptClusterStep> {
    let data = map["data"].as_object();
    let entry = |(key, text): (&String, &Value)| {
        let number: u64 = key.strip_suffix(".json")?.parse().ok()?;
        let note = data?.get(&note_key(number)).and_then(Value::as_str);
        Some(KeptClusterStep {
            run: part.run.clone(),
            number,
            group: text.as_str()?.into(),
            created: note.and_then(|note| serde_json::from_str(note).ok()),
            since: part.created.clone(),
        })
    };
    data.into_iter().flatten().filter_map(entry).collect()
}

fn parse_undone(map: &Value) -> Vec<UndoneStep> {
    let data = map["data"].as_object().into_iter().flatten();
    let marks = data.filter(|(key, _)| key.starts_with(UNDONE_PREFIX)).filter_map(|(_, text)| text.as_str());
    marks.flat_map(UndoneStep::parse_lines).collect()
}

impl ClusterWriter {
    /// Marks steps of one earlier run as undone by this one. That run may not be kept any longer.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses the request.
    pub async fn mark_undone(&self, undone: &[UndoneStep]) -> Result<(), KubeError> {
        let Some(first) = undone.first() else { return Ok(()) };
        let cluster = &self.looker.cluster;
        let (place, id) = cluster.locate_own_object("ConfigMap", &part_name(&self.looker.name, &first.run, 0));
        let data = Map::from_iter([(undone_key(&first.by), Value::from(UndoneStep::format_lines(undone)))]);
        let patch = json!({ "data": data });
        self.request_under_lock(async {
            match cluster.merge_object(&place, &id, &patch).await {
                Err(refusal) if refusal.has_code(404) => Ok(()),
                marked => marked.map(drop),
            }
        })
        .await
    }

    /// Begins the journal of this run, and removes those that are not kept any longer.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses a request.
    pub async fn begin_undo_journal(&self, kept: UndoRetention) -> Result<ClusterUndoLog, KubeError> {
        self.request_under_lock(self.try_begin_journal(kept)).await
    }

    async fn try_begin_journal(&self, kept: UndoRetention) -> Result<ClusterUndoLog, ApiRequestError> {
        let parts = self.looker.list_journal_parts().await?;
        let own_part = parts.iter().filter(|part| part.run == self.run_id()).map(|part| part.part).max();
        for part in self.list_outdated(&parts, kept).await? {
            match self.looker.cluster.delete_object(&self.looker.journal_place(), &part.id, &part.uid).await {
                Err(refusal) if refusal.has_code(404) => {}
                deleted => drop(deleted?),
            }
        }
        // The same run may have changed the cluster before: its earlier entries stay.
        let part = own_part.map_or(0, |last| last + 1);
        Ok(ClusterUndoLog { next: u64::from(part) * 100_000, part, used: None })
    }

    async fn list_outdated<'p>(
        &self,
        parts: &'p [JournalPart],
        kept: UndoRetention,
    ) -> Result<Vec<&'p JournalPart>, ApiRequestError> {
        let earlier: BTreeSet<&str> =
            parts.iter().map(|part| part.run.as_str()).filter(|run| *run != self.run_id()).collect();
        let many = earlier.len().saturating_sub((kept.runs as usize).saturating_sub(1));
        let surplus: BTreeSet<&str> = earlier.into_iter().take(many).collect();
        let now = match kept.days {
            Some(_) => self.held.read_server_time().await?,
            None => None,
        };
        let is_old = |part: &JournalPart| {
            let (Some(days), Some(now)) = (kept.days, now) else { return false };
            let created: Option<jiff::Timestamp> = part.created.parse().ok();
            created.is_some_and(|created| now.as_second() - created.as_second() > i64::from(days) * 86_400)
        };
        let outdated =
            |part: &&JournalPart| part.run != self.run_id() && (surplus.contains(part.run.as_str()) || is_old(part));
        Ok(parts.iter().filter(outdated).collect())
    }

    /// Writes the state before a step. Returns the number of the entry.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses the request: the step must not act.
    pub async fn keep_state_before(&self, log: &mut ClusterUndoLog, group: &UndoGroup) -> Result<u64, KubeError> {
        // Serialization of a struct of text and JSON cannot fail.
        let text = serde_json::to_string(group).unwrap_or_default();
        if log.used.is_some_and(|used| used + text.len() > MAX_PART_BYTES) {
            (log.part, log.used) = (log.part + 1, None);
        }
        let (number, size) = (log.next, text.len());
        let entry = Map::from_iter([(entry_key(number), Value::from(text))]);
        self.request_under_lock(self.add_entries(log, entry)).await?;
        (log.next, log.used) = (number + 1, Some(log.used.unwrap_or_default() + size));
        Ok(number)
    }

    async fn add_entries(&self, log: &ClusterUndoLog, data: Map<String, Value>) -> Result<(), ApiRequestError> {
        let cluster = &self.looker.cluster;
        let name = part_name(&self.looker.name, self.run_id(), log.part);
        let (place, id) = cluster.locate_own_object("ConfigMap", &name);
        if log.used.is_none() {
            let object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name, "namespace": id.namespace,
                    "labels": { "app.kubernetes.io/managed-by": FIELD_MANAGER, RUN_LABEL: self.run_id() },
                },
                "data": data,
            });
            match cluster.create_object(&place, &id, &object, false).await {
                // An earlier request created it, but its answer was lost.
                Err(refusal) if refusal.has_code(409) => {}
                made => return made.map(drop),
            }
        }
        cluster.merge_object(&place, &id, &json!({ "data": data })).await.map(drop)
    }

    /// Notes that a step ended, and the uids of the objects that it created.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses the request.
    pub async fn note_step_end(
        &self,
        log: &mut ClusterUndoLog,
        number: u64,
        created: &BTreeMap<String, String>,
    ) -> Result<(), KubeError> {
        let text = json!(created).to_string();
        log.used = log.used.map(|used| used + text.len());
        self.request_under_lock(self.add_entries(log, Map::from_iter([(note_key(number), Value::from(text))]))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_part_are_parsed_with_their_notes() {
        let (_, id) =
            ((), ObjectId { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: None, name: "x".into() });
        let part =
            JournalPart { id, run: "r1".into(), part: 0, uid: "u".into(), created: "2026-11-26T10:00:00Z".into() };
        let map = json!({ "data": { "0.json": "{}", "0.created": "{\"core/ConfigMap/n/a\":\"u1\"}", "1.json": "{}", "other": "x" } });
        let kept = parse_part(&part, &map);
        assert_eq!(kept.iter().map(|step| step.number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(kept[0].created, Some(BTreeMap::from([("core/ConfigMap/n/a".into(), "u1".into())])));
        let undone = [UndoneStep { run: "r1".into(), step: crate::model::StepId::new("web", "page"), by: "r2".into() }];
        let map =
            json!({ "data": { "0.json": "{}", undone_key("r2"): UndoneStep::format_lines(&undone) + "{\"run\":" } });
        assert_eq!((parse_undone(&map), parse_part(&part, &map).len()), (undone.to_vec(), 1));
        assert_eq!((kept[1].created.as_ref(), kept[1].since.as_str()), (None, "2026-11-26T10:00:00Z"));
    }

    #[test]
    fn names_of_journals_are_valid_object_names() {
        assert_eq!(part_name("lab", "20261121T093015-4f2a", 1), "forge-undo-lab-20261121t093015-4f2a-1");
    }
}
