//! Package files on the host: their metadata, and the installed state of their packages.

use super::query::Probe;
use super::rpm::{self, RPM_LOCKS};
use super::section::{NulFields, ProbeSection, SectionOutput, parse_utf8};
use super::{
    Observation, PackageFileInfo, PackageFileState, PackageManagerKind, PackageState, ProbeReading, UnansweredReason,
};
use crate::model::UntrustedText;

/// Prints fields: for each path its name and `absent`, `other` (not a regular file), `bad` with the error output, or
/// `deb` with the file's row and dpkg's row, or `rpm` with the file's row, rpm's rows and the version locks.
const SNIPPET: &str = r#"
forge_package_file() {
printf '%s\0' "$1"
if [ ! -f "$1" ]; then
[ -e "$1" ] || [ -L "$1" ] && printf 'other\0' || printf 'absent\0'
return
fi
case $1 in
*.rpm) need rpm; m=$(rpm -qp --nosignature --qf '%{NAME}\t%{EVR}\t%{ARCH}' -- "$1" 2>&1) ;;
*) need dpkg-deb; need dpkg-query; m=$(dpkg-deb -W --showformat='${Package}\t${Version}\t${Architecture}' -- "$1" 2>&1) ;;
esac || { printf 'bad\0%s\0' "$m"; return; }
n=${m%%	*}
case $1 in
*.rpm) printf 'rpm\0%s\0%s\0%s\0' "$m" "$(forge_rpm_rows "$n")" "$(forge_rpm_locks)" ;;
*) printf 'deb\0%s\0%s\0' "$m" "$(dpkg-query -W -f='${db:Status-Status}\t${Version}\t${db:Status-Want}\n' -- "$n" 2>/dev/null)" ;;
esac
}
forge_package_files() { for f; do forge_package_file "$f"; done; }
forge_package_files"#;

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("the package file", probes, read_answers);
    let body = section.body.code(rpm::RPM_ROWS).code(RPM_LOCKS).code(SNIPPET);
    section.body = section.probes.iter().filter_map(package_path).fold(body, |body, path| body.word(path));
    (!section.probes.is_empty()).then_some(section)
}

fn package_path(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::PackageFile { path } => Some(path),
        _ => None,
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let mut fields = NulFields::new(&raw.stdout);
    for probe in &section.probes {
        let answer =
            read_file_answer(&mut fields).filter(|(name, _)| package_path(probe).map(str::as_bytes) == Some(*name));
        let state = answer.map(|(_, state)| state).unwrap_or_else(|| Err(raw.explain_missing(section)));
        out.insert(probe.clone(), state.map(|state| ProbeReading::PackageFile(Box::new(state))));
    }
}

type PackageFileAnswer = Result<PackageFileState, UnansweredReason>;

/// Parses the output for one path; `None` if it is incomplete.
fn read_file_answer<'a>(fields: &mut NulFields<'a>) -> Option<(&'a [u8], PackageFileAnswer)> {
    let [path, tag] = fields.next_row()?;
    let state = match tag {
        b"absent" => Ok(PackageFileState::Absent),
        b"other" => Ok(PackageFileState::Bad("it is not a regular file".into())),
        b"bad" => Ok(PackageFileState::Bad(UntrustedText::from_bytes(last_line(fields.next()?)))),
        b"deb" => {
            let [file, installed] = fields.next_row()?;
            present_state(file, parse_deb_state(parse_utf8(installed)?))
                .ok_or_else(|| UnansweredReason::new("`dpkg-deb` returned no answer"))
        }
        b"rpm" => {
            let [file, rows, locks] = fields.next_row()?;
            let state = parse_utf8(file)?.split('\t').next().and_then(|name| {
                let rows = parse_utf8(rows)?;
                let state = rpm::parse_package_state(name, None, rows)?;
                Some(rpm::add_version_lock(state, name, rows, &String::from_utf8_lossy(locks)))
            });
            let state = state.and_then(|state| present_state(file, state));
            state.ok_or_else(|| UnansweredReason::new("`rpm` returned no answer"))
        }
        _ => return None,
    };
    Some((path, state))
}

fn present_state(file: &[u8], installed: PackageState) -> Option<PackageFileState> {
    let mut words = parse_utf8(file)?.split('\t');
    let mut word = || words.next().filter(|word| !word.is_empty()).map(str::to_owned);
    let (name, version, architecture) = (word()?, word()?, word()?);
    Some(PackageFileState::Present(PackageFileInfo { name, version, architecture, installed }))
}

/// For a package of several architectures, the installed one counts.
fn parse_deb_state(rows: &str) -> PackageState {
    let row = rows.lines().find(|row| row.starts_with("installed\t")).or(rows.lines().next()).unwrap_or_default();
    let words: Vec<&str> = row.split('\t').collect();
    let [status, version, want] = words[..] else {
        return PackageState { status: "not-installed".to_owned(), ..PackageState::default() };
    };
    let unpacked = !matches!(status, "not-installed" | "config-files" | "half-installed") && !version.is_empty();
    PackageState {
        manager: PackageManagerKind::Dpkg,
        version: unpacked.then(|| version.to_owned()),
        status: status.to_owned(),
        held: want == "hold",
        ..PackageState::default()
    }
}

fn last_line(said: &[u8]) -> &[u8] {
    let mut lines = said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed};

    fn one(path: &str, stdout: &str) -> Result<PackageFileState, UnansweredReason> {
        let probe = Probe::PackageFile { path: path.to_owned() };
        let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), &printed(stdout));
        seen.get(&probe).map(|reading| match reading {
            ProbeReading::PackageFile(state) => PackageFileState::clone(state),
            other => panic!("{other:?}"),
        })
    }

    fn info(state: Result<PackageFileState, UnansweredReason>) -> PackageFileInfo {
        match state {
            Ok(PackageFileState::Present(info)) => info,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn deb_file_is_parsed_with_installed_version() {
        let found = info(one("/a.deb", "/a.deb\0deb\0forge-tool\t1.0\tall\0installed\t0.9\thold\n\0"));
        assert_eq!(
            (found.name.as_str(), found.version.as_str(), found.architecture.as_str()),
            ("forge-tool", "1.0", "all")
        );
        assert_eq!((found.installed.version.as_deref(), found.installed.held), (Some("0.9"), true));
        let fresh = info(one("/a.deb", "/a.deb\0deb\0forge-tool\t1.0\tall\0\0"));
        assert_eq!((fresh.installed.version, fresh.installed.status.as_str()), (None, "not-installed"));
    }

    #[test]
    fn rpm_file_is_parsed_with_installed_version() {
        let text = "/a.rpm\0rpm\0demo\t1:2.0-1\tnoarch\0demo\tnoarch\t1:1.0-1\n\0/etc/x\ndemo-1:1.0-1.*\n\0";
        let found = info(one("/a.rpm", text));
        assert_eq!(found.installed.version.as_deref(), Some("1:1.0-1"));
        assert!(found.installed.held);
        let text = "/a.rpm\0rpm\0demo\t1:2.0-1\tnoarch\0error: cannot open Packages database\0\0";
        assert_eq!(one("/a.rpm", text), Err(UnansweredReason::new("`rpm` returned no answer")));
    }

    #[test]
    fn absent_invalid_and_truncated_package_files_are_distinct() {
        assert_eq!(one("/a.deb", "/a.deb\0absent\0"), Ok(PackageFileState::Absent));
        let bad = "/a.deb\0bad\0dpkg-deb: error: '/a.deb' is not a Debian format archive\n\0";
        let said = "dpkg-deb: error: '/a.deb' is not a Debian format archive";
        assert_eq!(one("/a.deb", bad), Ok(PackageFileState::Bad(said.into())));
        assert_eq!(
            one("/a.deb", "/a.deb\0deb\0forge-tool").expect_err("cut").why,
            "the package file returned no answer"
        );
    }
}
