//! The object of a finding, under its names in a host's logs.

use crate::drift::model::{DriftFinding, FindingAspect};

/// An object that a user may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingSubject {
    Packages(Vec<String>),
    Path(String),
    /// A unit with its type.
    Unit(String),
    /// A kernel setting, with dots.
    Sysctl(String),
    /// An account or a group.
    Account(String),
    Module(String),
    Mount(String),
    /// The kernel version or its boot parameters.
    Kernel,
    /// An object that logs do not name.
    Nameless,
}

/// The folder of administrators' unit files.
const UNITS: &str = "/etc/systemd/system";

impl FindingSubject {
    pub fn from_finding(finding: &DriftFinding) -> Self {
        let title = finding.title.raw();
        let attribute = finding.attribute.as_deref().unwrap_or_default();
        match finding.kind.raw() {
            "package" => Self::Packages(list_package_names(title, attribute)),
            "package_file" => Self::Packages(title.split(' ').next().map(str::to_owned).into_iter().collect()),
            "file" | "directory" | "link" | "line" | "toml" | "archive" | "artifact" => path_subject(title),
            "absent" => path_subject(title.split(" and ").next().unwrap_or(title)),
            "block" => path_subject(title.rsplit_once(" of ").map_or(title, |(_, path)| path)),
            "unit" => path_subject(&format!("{UNITS}/{title}")),
            "service" => Self::Unit(add_unit_suffix(title, "service")),
            "timer" => timer_subject(title, attribute),
            "sysctl" if attribute.starts_with("file ") => path_subject(&format!("/etc/sysctl.d/90-forge-{title}.conf")),
            "sysctl" => Self::Sysctl(title.replace('/', ".")),
            "user" | "group" => Self::Account(title.to_owned()),
            "ssh_authorized_key" => path_subject(&authorized_keys_path(title.split(' ').next().unwrap_or(title))),
            "kernel_module" => module_subject(title, attribute),
            "mount" if attribute == "entry" => path_subject("/etc/fstab"),
            "mount" => Self::Mount(title.to_owned()),
            "kernel_cmdline" | "initramfs" | "reboot" => Self::Kernel,
            _ if finding.aspect == FindingAspect::Verification && finding.reason.raw().contains("kernel") => {
                Self::Kernel
            }
            _ => Self::Nameless,
        }
    }

    /// Reports whether a boot sets it again from the configuration.
    pub fn is_reset_by_boot(&self, attribute: Option<&str>) -> bool {
        match self {
            Self::Sysctl(_) | Self::Module(_) => attribute == Some("loaded"),
            Self::Mount(_) => attribute == Some("mounted"),
            Self::Unit(_) => attribute == Some("state"),
            Self::Kernel | Self::Nameless => true,
            Self::Packages(_) | Self::Path(_) | Self::Account(_) => false,
        }
    }
}

fn path_subject(text: &str) -> FindingSubject {
    match text.starts_with('/') {
        true => FindingSubject::Path(text.to_owned()),
        false => FindingSubject::Nameless,
    }
}

/// Returns the default path of an account's keys.
fn authorized_keys_path(user: &str) -> String {
    match user {
        "root" => "/root/.ssh/authorized_keys".to_owned(),
        user => format!("/home/{user}/.ssh/authorized_keys"),
    }
}

/// Returns the changed part of a timer: one of two unit files, or the state of one of them.
fn timer_subject(title: &str, attribute: &str) -> FindingSubject {
    match attribute.split(' ').next() {
        Some(part @ ("service" | "timer")) => path_subject(&format!("{UNITS}/{title}.{part}")),
        _ => FindingSubject::Unit(add_unit_suffix(title, "timer")),
    }
}

/// Returns the changed part of a module: one of two files, or whether it is loaded.
fn module_subject(title: &str, attribute: &str) -> FindingSubject {
    match attribute.split(' ').next() {
        Some(folder @ ("modprobe.d" | "modules-load.d")) => path_subject(&format!("/etc/{folder}/forge-{title}.conf")),
        _ => FindingSubject::Module(title.to_owned()),
    }
}

/// Returns the package names. For several packages, the attribute names one: `version of nginx`.
fn list_package_names(title: &str, attribute: &str) -> Vec<String> {
    match attribute.rsplit_once(" of ") {
        Some((_, name)) => vec![name.to_owned()],
        None => title.split(", ").map(str::to_owned).collect(),
    }
}

fn add_unit_suffix(title: &str, kind: &str) -> String {
    const TYPES: [&str; 6] = ["service", "socket", "target", "timer", "mount", "path"];
    match title.rsplit_once('.') {
        Some((_, suffix)) if TYPES.contains(&suffix) => title.to_owned(),
        _ => format!("{title}.{kind}"),
    }
}
