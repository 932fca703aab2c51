//! Answers of helm that depend on a chart and its values only: each is asked once per run.
//!
//! A run observes a release when it plans, before it changes it, and afterwards. A chart renders the same each time,
//! or is known to render differently: both renderings that show this are kept.

use crate::model::to_hex;
use camino::Utf8Path;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Size limit of all kept answers, in bytes: a process that observes for days must not keep those of every value.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Size limit of a chart's files in bytes, above which its answers are not kept.
const MAX_CHART_BYTES: u64 = 64 * 1024 * 1024;
/// Depth of folders in a chart above which its answers are not kept: links may form a circle.
const MAX_FOLDER_DEPTH: usize = 24;

/// Kept answers, shared by all connections of a run.
#[derive(Clone, Default)]
pub struct ChartAnswers(Arc<Mutex<BTreeMap<String, Arc<str>>>>);

/// Answers contain rendered secrets.
impl std::fmt::Debug for ChartAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChartAnswers").finish_non_exhaustive()
    }
}

/// What identifies a query: with the same content, helm gives the same answer.
pub(super) struct ChartQueryKey(String);

impl ChartQueryKey {
    /// Builds the key of a query. `args` leave out the path of the chart, which is in its digest: built-in charts are in
    /// folders of their own for each connection. `turn` counts queries that shall be asked again.
    pub fn new(
        [program, version]: [&str; 2],
        chart: &ChartDigest,
        args: &[&str],
        input: Option<&SecretString>,
        turn: u32,
    ) -> Self {
        let mut key = Sha256::new();
        let input = input.map_or("", |input| input.expose_secret());
        let parts = [program, version, &chart.0, &turn.to_string(), input];
        for part in parts.into_iter().chain(args.iter().copied()) {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        Self(to_hex(&key.finalize()))
    }
}

impl ChartAnswers {
    pub(super) fn find(&self, key: &ChartQueryKey) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key.0).cloned()
    }

    /// Keeps an answer, which is not an error: the next query might succeed.
    pub(super) fn keep(&self, key: ChartQueryKey, answer: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(|answer| answer.len()).sum::<usize>() + answer.len() > MAX_ANSWER_BYTES {
            kept.clear();
        }
        kept.insert(key.0, answer.into());
    }
}

/// The digest of all files of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChartDigest(String);

impl ChartDigest {
    /// Reads a packed chart or a folder; `None` if it cannot be read, or is too large.
    pub fn read(chart: &Utf8Path) -> Option<Self> {
        let mut digest = Sha256::new();
        let mut left = MAX_CHART_BYTES;
        add_path(&mut digest, chart, "", &mut left, MAX_FOLDER_DEPTH)?;
        Some(Self(to_hex(&digest.finalize())))
    }
}

/// Adds a file, or a folder with everything in it, by its name.
fn add_path(digest: &mut Sha256, path: &Utf8Path, name: &str, left: &mut u64, depth: usize) -> Option<()> {
    let found = fs_err::metadata(path).ok()?;
    let mut entries = Vec::new();
    if found.is_dir() {
        for entry in path.read_dir_utf8().ok()? {
            entries.push(entry.ok()?.file_name().to_owned());
        }
        entries.sort();
    } else {
        // Anything else has no end, or none until something writes.
        *left = found.is_file().then(|| left.checked_sub(found.len()))??;
    }
    let bytes = if found.is_dir() { Vec::new() } else { fs_err::read(path).ok()? };
    let sizes = [u64::from(found.is_dir()), name.len() as u64, entries.len() as u64, bytes.len() as u64];
    sizes.iter().for_each(|size| digest.update(size.to_le_bytes()));
    digest.update(name);
    digest.update(&bytes);
    let depth = depth.checked_sub(1)?;
    entries.iter().try_for_each(|entry| add_path(digest, &path.join(entry), entry, left, depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8PathBuf;

    fn sample_chart() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let chart = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        std::fs::create_dir(chart.join("templates")).unwrap();
        std::fs::write(chart.join("templates/a.yaml"), "a").unwrap();
        (folder, chart)
    }

    #[test]
    fn every_change_of_a_file_changes_the_digest() {
        let (_folder, chart) = sample_chart();
        let mut seen = vec![ChartDigest::read(&chart).unwrap()];
        assert_eq!(ChartDigest::read(&chart).unwrap(), seen[0]);
        let changes: [&dyn Fn(); 4] = [
            &|| std::fs::write(chart.join("templates/a.yaml"), "b").unwrap(),
            &|| std::fs::rename(chart.join("templates/a.yaml"), chart.join("templates/c.yaml")).unwrap(),
            &|| std::fs::rename(chart.join("templates/c.yaml"), chart.join("c.yaml")).unwrap(),
            &|| std::fs::write(chart.join("d.yaml"), "").unwrap(),
        ];
        for change in changes {
            change();
            let now = ChartDigest::read(&chart).unwrap();
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }

    #[test]
    fn linked_files_count_and_circles_have_no_digest() {
        let (_folder, chart) = sample_chart();
        let (_other, target) = sample_chart();
        std::os::unix::fs::symlink(target.join("templates/a.yaml"), chart.join("link")).unwrap();
        let before = ChartDigest::read(&chart).unwrap();
        std::fs::write(target.join("templates/a.yaml"), "b").unwrap();
        assert_ne!(ChartDigest::read(&chart).unwrap(), before);
        std::os::unix::fs::symlink(&chart, chart.join("circle")).unwrap();
        assert_eq!(ChartDigest::read(&chart), None);
        assert_eq!(ChartDigest::read(&chart.join("missing")), None);
    }

    #[test]
    fn key_depends_on_every_part_of_the_query() {
        let (_folder, chart) = sample_chart();
        let chart = ChartDigest::read(&chart).unwrap();
        let (helm, other) = (["helm", "v4.1.4"], ["helm", "v3.19.0"]);
        let values = SecretString::from("{}".to_owned());
        let keys = [
            ChartQueryKey::new(helm, &chart, &["a", "b"], Some(&values), 0).0,
            ChartQueryKey::new(other, &chart, &["a", "b"], Some(&values), 0).0,
            ChartQueryKey::new(helm, &ChartDigest(String::new()), &["a", "b"], Some(&values), 0).0,
            ChartQueryKey::new(helm, &chart, &["ab", ""], Some(&values), 0).0,
            ChartQueryKey::new(helm, &chart, &["a", "b"], None, 0).0,
            ChartQueryKey::new(helm, &chart, &["a", "b"], Some(&values), 1).0,
        ];
        assert_eq!(std::collections::BTreeSet::from(keys.clone()).len(), keys.len());
    }

    #[test]
    fn answers_are_kept_up_to_a_size() {
        let answers = ChartAnswers::default();
        let find = |number: usize| answers.find(&ChartQueryKey(number.to_string()));
        let keep = |number: usize, answer: &str| answers.keep(ChartQueryKey(number.to_string()), answer);
        (0..200).for_each(|number| keep(number, "hunter2"));
        assert_eq!(find(0).as_deref(), Some("hunter2"));
        keep(200, &"x".repeat(MAX_ANSWER_BYTES - 1000));
        assert!(find(200).is_some() && find(0).is_none());
        assert!(!format!("{answers:?}").contains("hunter2"));
    }
}
