//! Writes built-in charts to a folder where helm can read them.

use super::super::KubeError;
use crate::object::list_builtin_charts;
use camino::{Utf8Path, Utf8PathBuf};

/// Writes a chart under `home`, completely or not at all, and returns its folder. An existing folder is reused: the
/// same program wrote it.
///
/// # Errors
/// There is no built-in chart of that name, or it cannot be written.
pub(super) fn unpack_chart(name: &str, home: &Utf8Path) -> Result<Utf8PathBuf, KubeError> {
    let chart = list_builtin_charts().iter().find(|chart| chart.name == name);
    let chart = chart.ok_or_else(|| KubeError::new(format!("no chart `{name}` ships with forge")))?;
    let folder = home.join("shipped").join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let lost = |error: std::io::Error| KubeError::new(format!("the chart `{name}` cannot be written: {error}"));
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(home).map_err(lost)?;
    for (path, text) in chart.files {
        let path = new.path().join(path);
        path.parent().map_or(Ok(()), fs_err::create_dir_all).map_err(lost)?;
        fs_err::write(&path, text).map_err(lost)?;
    }
    fs_err::create_dir_all(home.join("shipped")).map_err(lost)?;
    match fs_err::rename(new.keep(), &folder) {
        Err(error) if !folder.is_dir() => Err(lost(error)),
        _ => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Utf8Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in folder.read_dir_utf8().unwrap().map(Result::unwrap) {
            match entry.path().is_dir() {
                true => found.extend(files(entry.path()).iter().map(|file| format!("{}/{file}", entry.file_name()))),
                false => found.push(entry.file_name().to_owned()),
            }
        }
        found.sort();
        found
    }

    #[test]
    fn builtin_charts_match_the_files_and_versions_on_disk() {
        let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/charts");
        let mut names: Vec<String> =
            root.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        assert_eq!(names, list_builtin_charts().iter().map(|chart| chart.name).collect::<Vec<_>>());
        for chart in list_builtin_charts() {
            let own: Vec<&str> = chart.files.iter().map(|(path, _)| *path).collect();
            assert_eq!(own, files(&root.join(chart.name)), "{}", chart.name);
            let said = chart.files[0].1;
            assert!(said.contains(&format!("\nname: {}\n", chart.name)), "{said}");
            assert!(said.contains(&format!("\nversion: {}\n", chart.version)), "{said}");
        }
    }

    #[test]
    fn chart_is_unpacked_completely_and_only_once() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let folder = unpack_chart("rdma-shared-device-plugin", home).unwrap();
        assert_eq!(folder, home.join("shipped/rdma-shared-device-plugin"));
        assert_eq!(files(&folder), ["Chart.yaml", "templates/config.yaml", "templates/daemonset.yaml", "values.yaml"]);
        assert_eq!(unpack_chart("rdma-shared-device-plugin", home).unwrap(), folder);
        assert_eq!(files(home).len(), 4);
        let error = unpack_chart("another", home).unwrap_err();
        assert_eq!(error.to_string(), "no chart `another` ships with forge");
    }
}
