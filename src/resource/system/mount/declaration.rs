//! The declaration of a mount.

use crate::probe::Probe;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DesiredMountState {
    Mounted,
    Fstab,
    Unmounted,
}

#[derive(Debug)]
pub(super) struct MountResource {
    pub(super) path: String,
    pub(super) source: String,
    pub(super) fstype: String,
    pub(super) options: Vec<String>,
    pub(super) dump: i64,
    pub(super) pass: i64,
    pub(super) state: DesiredMountState,
    pub(super) mode: u32,
    pub(super) absent: bool,
}

impl MountResource {
    pub(super) fn probe(&self) -> Probe {
        Probe::Mount { path: self.path.clone(), source: self.source.clone() }
    }

    /// Returns the name of the unit that systemd makes of the entry in fstab (`systemd.unit(5)`, string escaping).
    pub(super) fn unit_name(&self) -> String {
        let path = self.path.trim_matches('/');
        let escape = |(at, byte): (usize, u8)| match byte {
            b'/' => "-".to_owned(),
            b'.' if at == 0 => "\\x2e".to_owned(),
            b':' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            other => format!("\\x{other:02x}"),
        };
        let name: String = path.bytes().enumerate().map(escape).collect();
        format!("{}.mount", if name.is_empty() { "-" } else { &name })
    }

    /// Returns the probe of that unit, if the file system has to be mounted at boot.
    pub(super) fn unit_probe(&self) -> Option<Probe> {
        let at_boot =
            self.state != DesiredMountState::Unmounted && self.options.iter().all(|option| option != "noauto");
        at_boot.then(|| Probe::Unit { name: self.unit_name() })
    }

    pub(super) fn is_bind(&self) -> bool {
        self.options.iter().any(|option| matches!(option.as_str(), "bind" | "rbind"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// origin: `systemd-escape --path --suffix=mount`
    #[test]
    fn unit_is_named_as_systemd_names_it() {
        let named = |path: &str| {
            let (source, fstype) = ("tmpfs".to_owned(), "tmpfs".to_owned());
            let (options, state) = (Vec::new(), DesiredMountState::Mounted);
            let path = path.to_owned();
            MountResource { path, source, fstype, options, dump: 0, pass: 0, state, mode: 0o755, absent: false }
                .unit_name()
        };
        assert_eq!(named("/"), "-.mount");
        assert_eq!(named("/srv/data"), "srv-data.mount");
        assert_eq!(named("/srv/my-data a"), "srv-my\\x2ddata\\x20a.mount");
        assert_eq!(named("/.x/a.b_c:d"), "\\x2ex-a.b_c:d.mount");
        assert_eq!(named("/a@b\\é"), "a\\x40b\\x5c\\xc3\\xa9.mount");
    }
}
