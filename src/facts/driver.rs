//! `driver`: the NVIDIA driver: loaded, on disk, in userspace and as a package.

use super::command::modinfo::{self, KernelModuleInfo};
use super::command::nvidia_version::{self, is_version};
use super::comparison_rules::{compare_entries, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    OutputSection, find_section, require_success, split_sections, text_or_null, unknown_part, value_or_unknown,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason, upstream_version};
use serde_json::{Map, json};

/// The target of the library's link ends with the version that programs load.
const SNIPPET: &str = r#"[ ! -e /sys/module/nvidia/version ] || { printf '\036module\n'; cat /sys/module/nvidia/version; }
for f in version params; do
[ ! -e "/proc/driver/nvidia/$f" ] || { printf '\n\036%s\n' "$f"; cat "/proc/driver/nvidia/$f"; }
done
n=0
for d in /proc/driver/nvidia/gpus/*; do [ ! -e "$d" ] || n=$((n + 1)); done
k=$(uname -r) || exit
printf '\n\036host\t%s\t%s\n' "$n" "$k"
if command -v modinfo >/dev/null 2>&1; then
seen=
for d in "/lib/modules/$k" /lib/modules/*; do
r=${d##*/}
[ -e "$d/modules.dep" ] || continue
[ "$r" != "$k" ] || { [ -z "$seen" ] || continue; seen=1; }
printf '\n\036disk\t%s\n' "$r"; LC_ALL=C modinfo -k "$r" nvidia 2>/dev/null
done
else printf '\n\036lacks\tmodinfo\n'; fi
for d in /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib; do
[ ! -e "$d/libnvidia-ml.so.1" ] || { printf '\n\036library\t%s\n' "$(readlink -f "$d/libnvidia-ml.so.1")"; break; }
done
[ ! -e /usr/bin/nvidia-uninstall ] || printf '\n\036uninstaller\n'
if [ -e /usr/bin/nvidia-smi ]; then
if command -v dpkg >/dev/null 2>&1; then
for f in /usr/bin/nvidia-smi "$(readlink -f /usr/bin/nvidia-smi)"; do
p=$(dpkg -S "$f" 2>/dev/null | grep -v '^diversion ') || continue
p=${p%%:*}; p=${p%%,*}
printf '\n\036package\t%s\t%s\n' "$p" "$(dpkg-query -W -f='${Version}' "$p" 2>/dev/null)"; break
done
elif command -v rpm >/dev/null 2>&1; then
p=$(rpm -qf --qf '%{NAME}\t%{VERSION}' /usr/bin/nvidia-smi 2>/dev/null) && printf '\n\036package\t%s\n' "$p"
fi
fi
:"#;

pub(super) const FACT: Fact = Fact {
    name: "driver",
    doc: "The NVIDIA driver: the loaded, on-disk, userspace and packaged versions, which must be equal. From \
          `/proc/driver/nvidia`, `/sys/module/nvidia`, `modinfo`, the management library's link and the package manager.",
    shape: FactShape::Map,
    fields: &[
        ("loaded", "version of the loaded module, null if none is loaded"),
        ("flavor", "flavor of the loaded module: `open` or `proprietary`"),
        ("disk", "version of the module for the running kernel, null without one"),
        ("disk_flavor", "its flavor, by its license"),
        (
            "kernels",
            "map from kernel release to `version`, `flavor` and `file` of its module, for every kernel that has one",
        ),
        ("userspace", "version of the management library, null without one"),
        ("package", "the package that contains `nvidia-smi`, null if none does"),
        ("packaged", "its upstream version, without epoch and revision"),
        (
            "method",
            "installation method: `cuda-repo` (NVIDIA's packages), `distro` (the distribution's, by name and revision), `runfile`, \
             `mixed` (packages and the installer program: they overwrite each other), null",
        ),
        ("uninstaller", "whether the uninstaller of the installer program exists"),
        (
            "params",
            "requested parameters of the loaded module, by name, as text (`/proc/driver/nvidia/params`), null if none is loaded. They \
             do not show the effect",
        ),
        ("gpus", "number of GPUs that the loaded driver manages"),
    ],
    reads: &[
        "/sys/module/nvidia/version",
        "/proc/driver/nvidia/{version,params}",
        "/proc/driver/nvidia/gpus/*",
        "/lib/modules/*/modules.dep",
        "uname -r",
        "modinfo -k RELEASE nvidia",
        "readlink -f {/usr/lib/x86_64-linux-gnu,/usr/lib/aarch64-linux-gnu,/usr/lib64,/usr/lib}/libnvidia-ml.so.1",
        "/usr/bin/nvidia-uninstall",
        "dpkg -S /usr/bin/nvidia-smi",
        "dpkg-query -W -f='${Version}' PACKAGE",
        "rpm -qf --qf '%{NAME}\\t%{VERSION}' /usr/bin/nvidia-smi",
    ],
    alike: &[
        compare_value("loaded"),
        compare_value("flavor"),
        compare_value("disk"),
        compare_value("disk_flavor"),
        compare_value("userspace"),
        compare_value("package"),
        compare_value("packaged"),
        compare_value("method"),
        compare_entries("params"),
        compare_value("gpus"),
    ],
    snippet: FactSnippet {
        name: "driver",
        snippet: SNIPPET,
        timeout_s: 20,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let host = find_section(&parts, "host")
        .ok_or_else(|| super::snippet_output::unparsed_answer("the kernel's release", output))?;
    let mut driver = loaded_fields(&parts);
    driver.extend(disk_fields(&parts, host.field_at(2)));
    let library = find_section(&parts, "library").map(|part| part.field_at(1));
    driver.insert("userspace".into(), library.map_or(Value::Null, library_version));
    driver.extend(package_fields(&parts));
    driver.insert("gpus".into(), json!(host.field_at(1).parse::<u64>().ok()));
    Ok(Value::Object(driver))
}

fn to_fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

fn loaded_fields(parts: &[OutputSection<'_>]) -> Map<String, Value> {
    let told = find_section(parts, "version");
    let loaded = told.and_then(|part| nvidia_version::parse_driver_version(part.body));
    let module = find_section(parts, "module").and_then(|part| part.first_line());
    let version = match (&loaded, module) {
        (Some(loaded), _) => loaded.version.as_str().into(),
        (None, Some(version)) => version.into(),
        (None, None) if told.is_some() => unknown_part("`/proc/driver/nvidia/version` has an unexpected format"),
        (None, None) => Value::Null,
    };
    let flavor = match loaded {
        Some(loaded) => Value::from(if loaded.open { "open" } else { "proprietary" }),
        None if version.is_null() => Value::Null,
        None => unknown_part("the loaded driver does not report its flavor"),
    };
    let params = find_section(parts, "params").map(|part| nvidia_version::parse_driver_params(part.body));
    to_fields([("loaded", version), ("flavor", flavor), ("params", json!(params))])
}

fn disk_fields(parts: &[OutputSection<'_>], running: &str) -> Map<String, Value> {
    if find_section(parts, "lacks").is_some() {
        let unknown = || unknown_part("`modinfo` is missing");
        return to_fields([("disk", unknown()), ("disk_flavor", unknown()), ("kernels", unknown())]);
    }
    let modules = parts.iter().filter(|part| part.name() == "disk");
    let modules: Vec<(&str, KernelModuleInfo)> =
        modules.filter_map(|part| Some((part.field_at(1), modinfo::parse_modinfo(part.body)?))).collect();
    let own = modules.iter().find(|(kernel, _)| *kernel == running).map(|(_, module)| module);
    let flavor = |module: &KernelModuleInfo| value_or_unknown(module.flavor(), || "its license is unknown".to_owned());
    let entry =
        |module: &KernelModuleInfo| json!({ "version": module.version, "flavor": flavor(module), "file": module.file });
    let kernels: Map<String, Value> =
        modules.iter().map(|(kernel, module)| ((*kernel).to_owned(), entry(module))).collect();
    to_fields([
        ("disk", text_or_null(own.and_then(|module| module.version.as_deref()))),
        ("disk_flavor", own.map_or(Value::Null, flavor)),
        ("kernels", kernels.into()),
    ])
}

fn library_version(path: &str) -> Value {
    let version = path.rsplit_once(".so.").map(|(_, version)| version).filter(|version| is_version(version));
    value_or_unknown(version, || format!("the file name of the management library `{path}` contains no version"))
}

fn package_fields(parts: &[OutputSection<'_>]) -> Map<String, Value> {
    let package = find_section(parts, "package");
    let uninstaller = find_section(parts, "uninstaller").is_some();
    let method = match (package, uninstaller) {
        (Some(_), true) => Value::from("mixed"),
        (Some(package), false) => Value::from(packaged_method(package.field_at(1), package.field_at(2))),
        (None, true) => Value::from("runfile"),
        (None, false) => Value::Null,
    };
    to_fields([
        ("package", text_or_null(package.map(|part| part.field_at(1)))),
        ("packaged", text_or_null(package.map(|part| upstream_version(part.field_at(2))))),
        ("method", method),
        ("uninstaller", uninstaller.into()),
    ])
}

/// Ubuntu's archive publishes `-server` packages and revisions such as `0ubuntu0.22.04.1` and `0ubuntu2`, Debian's a
/// package `nvidia-smi`, RPM Fusion `xorg-x11-drv-nvidia-cuda`. NVIDIA's repository has none of these: its revisions
/// are `1`, `0ubuntu1` and `1ubuntu1`. A `0ubuntu1` of a release under development looks like NVIDIA's.
fn packaged_method(name: &str, version: &str) -> &'static str {
    let of_archive = name.ends_with("-server")
        || name == "nvidia-smi"
        || name.starts_with("xorg-x11-drv-nvidia")
        || version.contains("ubuntu0.")
        || version.rsplit_once("-0ubuntu").is_some_and(|(_, revision)| revision != "1");
    if of_archive { "distro" } else { "cuda-repo" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    const LOADED: &str = include_str!("../../tests/samples/version-proprietary.txt");

    fn parse_text(text: &str) -> Value {
        parse_stdout(&FACT, &expand_separators(text)).expect("is known")
    }

    #[test]
    fn loaded_disk_userspace_and_package_versions_are_distinct() {
        // origin: reconstructed after a node with 560.35.03 whose userspace was upgraded
        let driver = parse_text(&format!(
            "@@module\n560.35.03\n\n@@version\n{LOADED}\n@@params\nEnableGpuFirmware: 0\nEnableGpuFirmwareLogs: 2\n\n\
             @@host\t8\t5.15.0-130-generic\n\n@@disk\t5.15.0-130-generic\nfilename:       /lib/modules/5.15.0-130-generic/updates/dkms/nvidia.ko\n\
             version:        560.35.05\nlicense:        NVIDIA\n\n@@disk\t5.15.0-131-generic\n\n\
             @@library\t/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.560.35.05\n\n@@package\tnvidia-utils-560\t1:560.35.05-0ubuntu1\n"
        ));
        let expected = json!({
            "loaded": "560.35.03", "flavor": "proprietary", "params": {"EnableGpuFirmware": "0", "EnableGpuFirmwareLogs": "2"},
            "disk": "560.35.05", "disk_flavor": "proprietary",
            "kernels": {"5.15.0-130-generic": {"version": "560.35.05", "flavor": "proprietary", "file": "/lib/modules/5.15.0-130-generic/updates/dkms/nvidia.ko"}},
            "userspace": "560.35.05", "package": "nvidia-utils-560", "packaged": "560.35.05", "method": "cuda-repo", "uninstaller": false, "gpus": 8,
        });
        assert_eq!(driver, expected);
    }

    #[test]
    fn host_without_driver_reports_null_fields() {
        let driver = parse_text("\n@@host\t0\t6.1.0-44-amd64\n");
        for field in ["loaded", "flavor", "disk", "disk_flavor", "userspace", "package", "packaged", "method", "params"]
        {
            assert_eq!(driver[field], Value::Null, "{field}");
        }
        assert_eq!((&driver["kernels"], &driver["gpus"]), (&json!({}), &json!(0)));
    }

    #[test]
    fn runfile_and_mixed_install_methods_are_detected() {
        assert_eq!(parse_text("@@host\t0\tk\n@@uninstaller\n")["method"], "runfile");
        assert_eq!(
            parse_text("@@host\t0\tk\n@@uninstaller\n@@package\tnvidia-utils-560\t560.35.03-1\n")["method"],
            "mixed"
        );
    }

    #[test]
    fn archive_packages_differ_from_those_of_nvidia() {
        let method = |package: &str| {
            parse_text(&format!("@@host\t0\tk\n@@package\t{package}\n"))["method"].as_str().map(str::to_owned)
        };
        // origin: source, versions as Launchpad and NVIDIA's repository publish them
        for (package, expected) in [
            ("nvidia-utils-550-server\t550.163.01-0ubuntu0.22.04.1", "distro"),
            ("nvidia-utils-570\t570.195.03-0ubuntu0.22.04.2", "distro"),
            ("nvidia-utils-535\t535.171.04-0ubuntu2", "distro"),
            ("nvidia-utils-550\t550.67-0ubuntu3", "distro"),
            ("nvidia-smi\t550.163.01-2", "distro"),
            ("xorg-x11-drv-nvidia-cuda\t580.105.08", "distro"),
            ("nvidia-utils-570\t570.133.20-0ubuntu1", "cuda-repo"),
            ("nvidia-utils-570\t570.148.08-1ubuntu1", "cuda-repo"),
            ("nvidia-utils\t595.71.05-1ubuntu1", "cuda-repo"),
            ("nvidia-driver-cuda\t580.105.08", "cuda-repo"),
        ] {
            assert_eq!(method(package).as_deref(), Some(expected), "{package}");
        }
    }

    #[test]
    fn unknown_fields_contain_a_reason() {
        let driver =
            parse_text("@@version\nodd\n@@host\t0\tk\n@@lacks\tmodinfo\n@@library\t/usr/lib/libnvidia-ml.so.1\n");
        assert_eq!(driver["loaded"]["unknown"], "`/proc/driver/nvidia/version` has an unexpected format");
        assert_eq!(driver["disk"]["unknown"], "`modinfo` is missing");
        assert_eq!(
            driver["userspace"]["unknown"],
            "the file name of the management library `/usr/lib/libnvidia-ml.so.1` contains no version"
        );
    }
}
