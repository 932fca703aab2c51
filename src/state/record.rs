//! The applied record: a host's own record of the last verified apply of a step.
//!
//! Records on hosts are authoritative: any controller reads them from the host. Each is one JSON file under
//! `/var/lib/forge/applied/`, readable only by root, written to a temporary file, synced and renamed.

use crate::model::{EarlierDeclaration, FormerIdentity, RecordIdentity, RecordedStart, StepId, Value};
use crate::script::ShellFragment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The root of forge's state on a host.
pub const STATE_DIR: &str = "/var/lib/forge";
/// The folder of the records.
pub const APPLIED_DIR: &str = "/var/lib/forge/applied";

/// The format version of a record; see `schemas/record.json`.
const RECORD_VERSION: u32 = 1;

/// The record of the last verified apply of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Format version; see `schemas/record.json`.
    pub version: u32,
    /// The cluster whose inventory declares the step. Absent in records of the first forge versions: such a record
    /// applies to any cluster until that cluster writes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// `recipe/step[key]`
    pub step: String,
    /// The kind of resource: `file`, `package` …
    pub kind: String,
    /// The object: `/etc/motd`, `nginx`.
    pub title: String,
    /// Whether the step was a removal, verified as complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// Whether its recipe was removed and the step kept its resource (`keep`): nothing is left to report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// `sha256:…` of the canonical desired value; `keyed:…` if it contains a secret.
    pub digest: String,
    /// The desired value; absent if it contains a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The ID of the run that applied the step.
    pub run: String,
    /// The identity of the plan that the run applied; absent if the record does not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The machine that forge ran on.
    pub controller: String,
    /// The user who started forge.
    pub user: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// The boot that forge made for the step and in which it was still not effective:
    /// `/proc/sys/kernel/random/boot_id`. Absent once the step is effective, or applied again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_boot: Option<String>,
    /// The verifications of its recipe that did not pass at the end of the run, on one step of the recipe. The next apply
    /// rewrites such a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// For services: the start that was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<RecordedStart>,
    /// The objects on the host that the step owned, and those it was a part of. Absent in records of older versions:
    /// the next apply rewrites these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RecordIdentity>,
    /// Former identities of the step, before its declaration was changed to another object, until that is verified to
    /// be gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<FormerIdentity>,
    /// Earlier declarations of the step, the latest first: a plan that declares one of them again takes this apply back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierDeclaration>,
}

impl StepRecord {
    /// Builds the record of a step whose result was just verified.
    pub fn new(cluster: &str, id: &StepId, kind: &str, title: &str, digest: String, value: Option<Value>) -> Self {
        Self {
            version: RECORD_VERSION,
            cluster: Some(cluster.to_owned()),
            absent: false,
            kept: false,
            step: id.to_string(),
            kind: kind.to_owned(),
            title: title.to_owned(),
            digest,
            value,
            run: String::new(),
            plan: None,
            controller: String::new(),
            user: String::new(),
            time: String::new(),
            failed_boot: None,
            unverified: Vec::new(),
            started: None,
            identity: None,
            left: Vec::new(),
            earlier: Vec::new(),
        }
    }

    /// Returns the record as JSON, as it is written to the host.
    pub fn to_value(&self) -> Value {
        // Serialization of a struct of text and JSON cannot fail.
        serde_json::to_value(self).unwrap_or(json!({}))
    }
}

/// dash calls a full disk an I/O error: another program tells why a file cannot be written.
const EXPLAIN_UNWRITTEN: &str = r#"forge_unwritten() { echo x | cat >"$1" && printf 'cannot write %s\n' "$1" >&2; exit 1; }
"#;

/// Returns the script that writes `records`, each atomically: into a folder beside them, and from there to their places
/// after one sync of all. It removes a record's old file without the cluster's name once the new one exists.
pub fn build_records_script(records: &[(StepId, StepRecord)]) -> ShellFragment {
    build_staged_records_script(records).code("sync $forge_new && forge_place || exit 1\n")
}

/// Returns the script that writes `records` into the folder for new ones. Sets `forge_new` to their files there, which a
/// caller syncs with others of its own before it calls `forge_place`, which gives them their places. The names of records
/// contain no characters that a shell splits or expands.
pub(super) fn build_staged_records_script(records: &[(StepId, StepRecord)]) -> ShellFragment {
    let new = |(id, record): &(StepId, StepRecord)| {
        format!("{APPLIED_DIR}/.new/{}", id.record_name(record.cluster.as_deref().unwrap_or_default()))
    };
    let start = ShellFragment::new().code("[ -d").word(format!("{APPLIED_DIR}/.new")).code(" ] || mkdir");
    let start = start.word(format!("{APPLIED_DIR}/.new")).code(" || exit 1\n").code(EXPLAIN_UNWRITTEN);
    let written = records.iter().fold(start, |script, entry| {
        let body = entry.1.to_value().to_string().into_bytes();
        let written = script.print_bytes(&body).code(" 2>/dev/null >").word(new(entry));
        written.code(" || forge_unwritten").word(new(entry)).code("\n")
    });
    let named = records.iter().fold(written.code("set --"), |script, entry| script.word(new(entry)));
    let placed = named.code("\nforge_new=$*\nforge_place() {\nmv -f $forge_new");
    let placed = placed.word(APPLIED_DIR).code(" || return 1\nset --");
    let old = |(id, _): &(StepId, StepRecord)| format!("{APPLIED_DIR}/{}", id.old_record_name());
    let old = records.iter().fold(placed, |script, entry| script.word(old(entry)));
    old.code("\nfor f; do [ ! -e \"$f\" ] || rm -f \"$f\" || return 1; done\n}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretStore;
    use secrecy::ExposeSecret;

    #[test]
    fn a_record_name_cannot_leave_the_folder() {
        let name = StepId::new("a", "../../etc/passwd").record_name("lab");
        assert_eq!(name, "lab@a%2F..%2F..%2Fetc%2Fpasswd.json");
        assert_eq!(StepId::new("..", "x y").record_name("../@"), "%2E.%2F%40@%2E.%2Fx%20y.json");
    }

    #[test]
    fn full_disk_is_named_with_the_record() {
        let id = StepId::new("r", "s");
        let record = StepRecord::new("lab", &id, "file", "/f", "sha256:0".into(), None);
        let script = build_records_script(&[(id.clone(), record)]).render(&SecretStore::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let text = script.expose_secret().replace("/var/lib/forge/applied", dir.path().to_str().unwrap());
        std::fs::create_dir(dir.path().join(".new")).unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join(".new").join(id.record_name("lab"))).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "cat: write error: No space left on device\n");
        assert_eq!(output.status.code(), Some(1));
    }

    #[test]
    fn record_round_trips_through_the_write_script() {
        let id = StepId::new("r", "it's $(here)\n");
        let record = StepRecord::new("lab", &id, "file", "/etc/it's", "sha256:0".into(), Some(json!({"a": "'\"\n$"})));
        let script = build_records_script(&[(id.clone(), record.clone())]).render(&SecretStore::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(id.old_record_name()), "{}").unwrap();
        let text = script.expose_secret().replace("/var/lib/forge/applied", dir.path().to_str().unwrap());
        let status = std::process::Command::new("sh").arg("-c").arg(text).status().unwrap();
        assert!(status.success());
        let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = entries.filter(|path| path.is_file()).collect();
        assert_eq!(files.len(), 1, "the old file is removed: {files:?}");
        let read: StepRecord = serde_json::from_str(&std::fs::read_to_string(&files[0]).unwrap()).unwrap();
        assert_eq!(read, record);
    }
}
