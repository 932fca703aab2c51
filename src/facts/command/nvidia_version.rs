//! `/proc/driver/nvidia/version` and `params`: the loaded driver.

use std::collections::BTreeMap;

/// The loaded driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedDriver {
    /// `560.35.03`
    pub version: String,
    /// Whether it is the open flavor.
    pub open: bool,
}

/// Parses `/proc/driver/nvidia/version`; `None` if no version follows `Kernel Module`.
pub fn parse_driver_version(text: &str) -> Option<LoadedDriver> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let (before, after) = line.split_once("Kernel Module")?;
    let version = after.split_whitespace().find(|word| is_version(word))?;
    Some(LoadedDriver { version: version.to_owned(), open: before.trim_end().ends_with("Open") })
}

/// Returns whether a word is two or three numbers separated by dots.
pub fn is_version(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    (2..=3).contains(&parts.len())
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses `/proc/driver/nvidia/params`: the parameters requested when the module was loaded, by name. They do not show
/// the effect.
pub fn parse_driver_params(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(super::split_key_value);
    pairs.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_flavor_are_parsed() {
        let loaded = |text| parse_driver_version(text).map(|loaded| (loaded.version, loaded.open));
        let proprietary = include_str!("../../../tests/samples/version-proprietary.txt");
        assert_eq!(loaded(proprietary), Some(("560.35.03".into(), false)));
        let open = include_str!("../../../tests/samples/version-open.txt");
        assert_eq!(loaded(open), Some(("580.105.08".into(), true)));
        assert_eq!(
            loaded("NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.91.07  Wed Jul 29 02:50:21 UTC 2026\n"),
            Some(("595.91.07".into(), false))
        );
        assert_eq!(loaded("GCC version:  gcc version 15.2.0\n"), None);
    }

    #[test]
    fn firmware_and_firmware_log_parameters_are_distinct() {
        let params = parse_driver_params("EnableGpuFirmware: 0\nEnableGpuFirmwareLogs: 2\nRegistryDwords: \"\"\n");
        assert_eq!(params["EnableGpuFirmware"], "0");
        assert_eq!(params["EnableGpuFirmwareLogs"], "2");
        assert_eq!(params["RegistryDwords"], "");
    }
}
