//! Helm's record of one revision of a release: the content of its Secret or ConfigMap.
//!
//! Sources: `pkg/storage/driver/util.go` and `pkg/release/v1/release.go` of helm 4.1; helm 3.19 writes the same, except
//! for `apply_method`. Fields that are not needed here are ignored, such as the chart's templates.

use crate::model::Value;
use base64::Engine as _;
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::io::Read;

/// Size limit of an unpacked record, in bytes. The API limits the packed one to about 1 MiB.
const MAX_RECORD_BYTES: u64 = 32 * 1024 * 1024;

/// The first bytes of gzip data. Records of old versions of helm are not compressed.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// One revision of a release. Values and manifest may contain secrets: the type has no `Debug`.
pub(crate) struct ReleaseRecord {
    /// The status as helm writes it: `deployed`, `pending-upgrade` …
    pub status: String,
    /// The name in the chart's `Chart.yaml`.
    pub chart: String,
    /// The version in the chart's `Chart.yaml`.
    pub version: String,
    /// When the revision began; `None` if helm did not note it.
    pub began: Option<jiff::Timestamp>,
    pub description: String,
    /// Whether helm applied the objects on the server side. Helm 3 cannot do that.
    pub server_side: bool,
    /// The values of the release itself, without the defaults of its chart.
    pub values: Value,
    /// The objects, without hooks, as YAML.
    pub manifest: String,
    /// The hooks, as YAML.
    pub hooks: String,
}

#[derive(Deserialize)]
struct StoredRecord {
    info: StoredInfo,
    chart: StoredChart,
    #[serde(default)]
    config: Option<serde_json::Map<String, Value>>,
    #[serde(default)]
    manifest: String,
    #[serde(default)]
    apply_method: String,
    #[serde(default)]
    hooks: Option<Vec<StoredHook>>,
}

#[derive(Deserialize)]
struct StoredHook {
    #[serde(default)]
    manifest: String,
}

#[derive(Deserialize)]
struct StoredInfo {
    status: String,
    /// RFC 3339. Helm 3 writes an unknown time as an empty text.
    #[serde(default)]
    last_deployed: Option<String>,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct StoredChart {
    metadata: StoredChartMetadata,
}

#[derive(Deserialize)]
struct StoredChartMetadata {
    name: String,
    version: String,
}

impl ReleaseRecord {
    /// Parses a record: base64 of the JSON, which is usually compressed.
    ///
    /// # Errors
    /// The record has another form. The message does not contain any of it.
    pub fn parse(stored: &[u8]) -> Result<Self, String> {
        let packed = base64::engine::general_purpose::STANDARD.decode(stored.trim_ascii());
        let json = unpack(packed.map_err(|_| "it is not base64".to_owned())?)?;
        // An error of serde may quote a value.
        let record: StoredRecord = serde_json::from_slice(&json)
            .map_err(|error| format!("line {}, column {} is unexpected", error.line(), error.column()))?;
        let began = record.info.last_deployed.filter(|time| !time.is_empty()).map(|time| time.parse());
        Ok(Self {
            status: record.info.status,
            chart: record.chart.metadata.name,
            version: record.chart.metadata.version,
            began: began.transpose().map_err(|_| "its time is not RFC 3339".to_owned())?,
            description: record.info.description,
            server_side: record.apply_method == "ssa",
            values: Value::Object(record.config.unwrap_or_default()),
            manifest: record.manifest,
            hooks: record.hooks.iter().flatten().map(|hook| format!("---\n{}\n", hook.manifest)).collect(),
        })
    }
}

fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, String> {
    if !packed.starts_with(&GZIP_MAGIC) {
        return Ok(packed);
    }
    let mut json = Vec::new();
    let read = GzDecoder::new(packed.as_slice()).take(MAX_RECORD_BYTES + 1).read_to_end(&mut json);
    read.map_err(|error| format!("it cannot be decompressed: {error}"))?;
    match json.len() as u64 > MAX_RECORD_BYTES {
        true => Err(format!("it has more than {} MB", MAX_RECORD_BYTES / 1024 / 1024)),
        false => Ok(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;
    use std::io::Write;

    /// The data of Secrets, from helm 3.19.0 and 4.1.4.
    fn recorded(name: &str) -> Vec<u8> {
        let path = format!("{}/tests/helm/{name}", env!("CARGO_MANIFEST_DIR"));
        let secret: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        base64::engine::general_purpose::STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap()
    }

    fn pack(json: &Value) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(json.to_string().as_bytes()).unwrap();
        base64::engine::general_purpose::STANDARD.encode(gzip.finish().unwrap()).into_bytes()
    }

    fn sample() -> Value {
        json!({
            "info": { "status": "deployed", "last_deployed": "2026-11-30T19:00:00.5+01:00" },
            "chart": { "metadata": { "name": "tiny", "version": "0.1.0", "annotations": { "a": "b" } }, "lock": null },
            "version": 1, "hooks": [{}, { "manifest": "kind: Job" }], "later": {},
        })
    }

    fn parse_error(stored: &[u8]) -> String {
        ReleaseRecord::parse(stored).err().unwrap()
    }

    #[test]
    fn records_of_both_majors_are_read() {
        for (name, server_side) in [("helm3-secret.json", false), ("helm4-secret.json", true)] {
            let record = ReleaseRecord::parse(&recorded(name)).unwrap();
            assert_eq!((record.chart.as_str(), record.version.as_str()), ("tiny", "0.1.0"));
            assert_eq!((record.status.as_str(), record.description.as_str()), ("deployed", "Upgrade complete"));
            assert_eq!((record.values, record.server_side), (json!({ "replicas": 2 }), server_side));
            assert!(record.began.unwrap().to_string().starts_with("2026-"));
            let objects = crate::object::parse_manifest(&record.manifest).unwrap();
            assert!(objects.iter().any(|object| object.kind() == "Deployment"), "{}", record.manifest);
        }
    }

    #[test]
    fn missing_parts_are_empty_and_unknown_ones_ignored() {
        let record = ReleaseRecord::parse(&pack(&sample())).unwrap();
        assert_eq!((record.values, record.manifest.as_str(), record.server_side), (json!({}), "", false));
        assert_eq!(record.began.unwrap().to_string(), "2026-11-30T18:00:00.5Z");
        assert_eq!(record.hooks, "---\n\n---\nkind: Job\n");
        let mut untimed = sample();
        untimed["info"]["last_deployed"] = json!("");
        assert_eq!(ReleaseRecord::parse(&pack(&untimed)).unwrap().began, None);
    }

    #[test]
    fn uncompressed_record_is_read() {
        let stored = base64::engine::general_purpose::STANDARD.encode(sample().to_string());
        assert_eq!(ReleaseRecord::parse(stored.as_bytes()).unwrap().chart, "tiny");
    }

    #[test]
    fn unexpected_record_is_an_error_that_shows_none_of_it() {
        let mut other = sample();
        other["info"]["status"] = json!(["hunter2"]);
        assert_eq!(parse_error(&pack(&other)), "line 1, column 18 is unexpected");
        other["info"] = json!({ "status": "deployed", "last_deployed": "hunter2" });
        assert_eq!(parse_error(&pack(&other)), "its time is not RFC 3339");
        assert_eq!(parse_error(b"hunter2?"), "it is not base64");
        let cut = base64::engine::general_purpose::STANDARD.encode([0x1f, 0x8b, 0x08, 0, 0]);
        assert!(parse_error(cut.as_bytes()).starts_with("it cannot be decompressed: "));
    }

    #[test]
    fn record_that_unpacks_to_more_than_the_limit_is_an_error() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&vec![b' '; MAX_RECORD_BYTES as usize + 1]).unwrap();
        let packed = base64::engine::general_purpose::STANDARD.encode(gzip.finish().unwrap());
        assert_eq!(parse_error(packed.as_bytes()), "it has more than 32 MB");
    }
}
