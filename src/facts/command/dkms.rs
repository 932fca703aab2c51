//! `dkms status`: modules that are built on the host, in the output formats of dkms 2 and 3.

/// One version of one module, for one kernel or not yet built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DkmsEntry {
    /// The name of the DKMS package: `nvidia`. It may contain several kernel modules.
    pub module: String,
    /// Its version, as text.
    pub version: String,
    /// The kernel's release; `None` while the module is only added.
    pub kernel: Option<String>,
    /// The kernel's architecture; `None` while the module is only added.
    pub arch: Option<String>,
    /// `added`, `built`, `installed`
    pub state: String,
    /// The note in brackets: `WARNING! Diff between built and installed module!`
    pub note: Option<String>,
}

/// Parses one line; `None` if it has another format.
pub fn parse_dkms_line(line: &str) -> Option<DkmsEntry> {
    let (names, state) = line.split_once(": ")?;
    let mut names: Vec<&str> = names.split(", ").collect();
    if let Some((module, version)) = names[0].split_once('/') {
        names.splice(0..1, [module, version]);
    }
    let (module, version) = (names.first()?, names.get(1)?);
    let (state, note) = state.split_once('(').map_or((state, None), |(state, note)| (state, Some(note)));
    let text = |at: usize| names.get(at).map(|text| (*text).to_owned());
    Some(DkmsEntry {
        module: (*module).to_owned(),
        version: (*version).to_owned(),
        kernel: text(2),
        arch: text(3),
        state: state.trim().to_owned(),
        note: note.map(|note| note.trim().trim_end_matches(')').to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_status_formats_are_parsed() {
        let of = |text| parse_dkms_line(text).map(|e| (e.module, e.version, e.kernel, e.state));
        let expected =
            Some(("nvidia".into(), "560.35.03".into(), Some("5.15.0-130-generic".into()), "installed".into()));
        assert_eq!(of("nvidia/560.35.03, 5.15.0-130-generic, x86_64: installed"), expected);
        assert_eq!(of("nvidia, 560.35.03, 5.15.0-130-generic, x86_64: installed"), expected);
        assert_eq!(of("nvidia/560.35.03: added"), Some(("nvidia".into(), "560.35.03".into(), None, "added".into())));
        let noted = parse_dkms_line(
            "mlnx-ofed-kernel/24.10, 5.15.0, x86_64: installed (WARNING! Diff between built and installed module!)",
        );
        let noted = noted.expect("is an entry");
        assert_eq!(
            (noted.state.as_str(), noted.note.as_deref()),
            ("installed", Some("WARNING! Diff between built and installed module!"))
        );
        assert_eq!(parse_dkms_line("Error! Could not locate dkms.conf file."), None);
    }
}
