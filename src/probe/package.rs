//! Packages: one listing of `dpkg-query`, from which the state of the package manager is read too.

use super::query::Probe;
use super::section::{ProbeSection, SectionOutput};
use super::{Observation, PackageState, ProbeReading, UnansweredReason};
use crate::script::ShellFragment;
use std::collections::BTreeSet;

/// Sets `R` to the relevant rows of dpkg's database: those of the named packages, of packages that are not fully
/// installed, and dpkg's own, whose architecture is the native one; and `S` to the status. `*` covers packages that are
/// not installed too. On failure, `R` is the error output. The shell itself selects the rows: a few thousand take a few
/// milliseconds.
const LISTING_SNIPPET: &str = r#"
forge_list() {
exec dpkg-query -W -f='${Package}\t${db:Status-Status}\t${Version}\t${Architecture}\t${db:Status-Want}\t${binary:Package}\t${db:Status-Eflag}\n' -- '*'
}
forge_rows() {
command -v dpkg-query >/dev/null 2>&1 || { R='forge-missing dpkg-query' S=127; return; }
R=$(forge_list 2>/dev/null); S=$?
[ "$S" = 0 ] || { R=$(forge_list 2>&1 >/dev/null); S=$?; return; }
set -f
IFS='
'
set -- "$1" $R
R= w=$1
shift
for l; do
case $l in
*'	half-'*|*'	unpacked'*|*'	triggers-'*|*'	reinstreq') ;;
*) case $w in *" ${l%%	*} "*) ;; *) continue ;; esac ;;
esac
R=$R${R:+$IFS}$l
done
set +f
unset IFS
[ -n "$R" ] || S=1
}
forge_rows"#;

/// Prints the rows, or the error output instead.
pub(crate) const DPKG_ROWS: &str = r#"
if [ "$S" = 0 ]; then printf '%s\n' "$R"; else printf '%s\n' "$R" >&2; ( exit "$S" ); fi"#;

/// Builds the code that lists the packages of `probes`. It runs once, before all sections that read its rows.
pub(crate) fn build_listing(probes: &[Probe]) -> ShellFragment {
    let names: BTreeSet<&str> =
        probes.iter().filter_map(probe_package).map(|name| split_architecture(name).0).collect();
    let names = names.iter().fold(" dpkg ".to_owned(), |all, name| all + name + " ");
    ShellFragment::new().code(LISTING_SNIPPET).word(names).code("\n")
}

/// Splits `name` or `name:architecture`.
fn split_architecture(name: &str) -> (&str, Option<&str>) {
    name.split_once(':').map_or((name, None), |(name, arch)| (name, Some(arch)))
}

/// Reports whether `name` is a package's name, with or without `:ARCH`. Anything else would be a pattern.
pub(crate) fn is_package_name(name: &str) -> bool {
    let (name, arch) = name.split_once(':').unwrap_or((name, "any"));
    let word = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    word(name, "+.-_") && word(arch, "-")
}

pub(crate) fn build_section(probes: Vec<Probe>, listing: &ShellFragment) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`dpkg-query`", probes, read_answers);
    section.before = listing.clone();
    section.body = section.body.code(DPKG_ROWS);
    section.plain = true;
    (!section.probes.is_empty()).then_some(section)
}

pub(crate) fn probe_package(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Package { name, .. } => Some(name),
        _ => None,
    }
}

/// Returns a version of dpkg or rpm without epoch and revision.
pub(crate) fn upstream_version(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

/// The status of an installed package that dpkg requires to be installed again, in the words of its manual.
const REINST_REQUIRED: &str = "reinst-required";

/// One row of the listing.
pub(crate) struct DpkgRow<'a> {
    name: &'a str,
    arch: &'a str,
    want: &'a str,
    pub status: &'a str,
    version: &'a str,
    /// The name in dpkg's messages, with the architecture if it is ambiguous.
    pub full_name: &'a str,
}

impl<'a> DpkgRow<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split('\t');
        let mut word = || words.next();
        let (name, status, version) = (word()?, word()?, word()?);
        let (arch, want, full_name) = (word()?, word()?, word()?);
        // dpkg calls a package installed whose files may be damaged. Recordings of older versions lack the flag.
        let is_damaged = status == "installed" && word() == Some("reinstreq");
        Some(Self { name, status: if is_damaged { REINST_REQUIRED } else { status }, version, arch, want, full_name })
    }

    /// Parses all rows. `None` without dpkg's own: the listing is then incomplete, and a package that is not in it may
    /// still exist.
    pub fn parse_all(stdout: &'a str) -> Option<Vec<Self>> {
        let rows: Vec<Self> = stdout.lines().filter_map(DpkgRow::parse).collect();
        rows.iter().any(|row| row.name == "dpkg").then_some(rows)
    }

    fn to_package_state(&self) -> PackageState {
        let unpacked = !matches!(self.status, "not-installed" | "config-files" | "half-installed");
        PackageState {
            version: (unpacked && !self.version.is_empty()).then(|| self.version.to_owned()),
            status: self.status.to_owned(),
            held: self.want == "hold",
            ..PackageState::default()
        }
    }
}

/// Only a complete listing proves that a package is absent.
fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let stdout = String::from_utf8_lossy(&raw.stdout);
    let Some(rows) = DpkgRow::parse_all(&stdout).filter(|_| raw.is_complete(&[0])) else {
        return section.answer_all_unknown(&raw.explain_missing(section), out);
    };
    let native = rows.iter().find(|row| row.name == "dpkg").map_or("", |row| row.arch);
    for probe in &section.probes {
        let Some(name) = probe_package(probe) else { continue };
        let state = find_row(&rows, name, native).map_or_else(not_installed_state, DpkgRow::to_package_state);
        out.insert(probe.clone(), Ok(ProbeReading::Package(Box::new(state))));
    }
}

/// Finds the row of `name`: that of the architecture it names, else the native one, else the only one.
fn find_row<'a, 'b>(rows: &'b [DpkgRow<'a>], name: &str, native: &str) -> Option<&'b DpkgRow<'a>> {
    let (base, arch) = split_architecture(name);
    let mut of_name = rows.iter().filter(|row| row.name == base);
    match arch {
        Some("any") | None => {
            let all: Vec<_> = of_name.collect();
            let best = all.iter().find(|row| row.arch == native || row.arch == "all");
            best.or(all.first()).copied()
        }
        Some(arch) => of_name.find(|row| row.arch == arch || (arch == native && row.arch == "all")),
    }
}

fn not_installed_state() -> PackageState {
    PackageState { status: "not-installed".to_owned(), ..PackageState::default() }
}

/// Applies `add` to the answer of each package.
pub(crate) fn amend_answers(section: &ProbeSection, out: &mut Observation, add: impl Fn(&str, &mut PackageState)) {
    for probe in &section.probes {
        let (Some(name), Ok(ProbeReading::Package(mut state))) = (probe_package(probe), out.get(probe).cloned()) else {
            continue;
        };
        add(name, &mut state);
        out.insert(probe.clone(), Ok::<_, UnansweredReason>(ProbeReading::Package(state)));
    }
}

#[cfg(test)]
mod tests;
