//! Packages: one `dpkg-query` over all names.

use super::section::{End, Raw, Section};
use super::{Observation, PackageState, Probe, Reading, Unknown};
use crate::script::Fragment;

/// dpkg's own row is asked for too: its architecture is the host's native one.
const SNIPPET: &str = "need dpkg-query\ndpkg-query -W -f='${Package}\\t${Architecture}\\t${db:Status-Want}\\t\
                       ${db:Status-Status}\\t${Version}\\n' -- dpkg";

/// Returns whether `name` is a package's name, with or without `:ARCH`. Anything else would be a pattern.
pub(crate) fn is_name(name: &str) -> bool {
    let (name, arch) = name.split_once(':').unwrap_or((name, "any"));
    let word = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    word(name, "+.-_") && word(arch, "-")
}

pub(crate) fn section(probes: Vec<Probe>) -> Option<Section> {
    let mut section = Section::new("`dpkg-query`", probes, read);
    section.body = names(section.body.code(SNIPPET), &section.probes);
    section.cap = 1024 * (section.probes.len() as u64 + 1);
    (!section.probes.is_empty()).then_some(section)
}

/// Appends the names of packages as words.
pub(crate) fn names(body: Fragment, probes: &[Probe]) -> Fragment {
    probes.iter().filter_map(name).fold(body, |body, name| body.word(name))
}

pub(crate) fn name(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Package { name } => Some(name),
        _ => None,
    }
}

/// One line of `dpkg-query`.
struct Row<'a> {
    name: &'a str,
    arch: &'a str,
    want: &'a str,
    status: &'a str,
    version: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split('\t');
        let mut word = || words.next();
        Some(Self { name: word()?, arch: word()?, want: word()?, status: word()?, version: word()? })
    }

    fn state(&self) -> PackageState {
        let unpacked = !matches!(self.status, "not-installed" | "config-files" | "half-installed");
        PackageState {
            version: (unpacked && !self.version.is_empty()).then(|| self.version.to_owned()),
            status: self.status.to_owned(),
            held: self.want == "hold",
            ..PackageState::default()
        }
    }
}

/// Only a run that came to its end tells that a package is absent: it says so with status 1.
fn read(section: &Section, raw: &Raw, out: &mut Observation) {
    if !raw.is_whole(&[0, 1]) {
        return section.all_unknown(&raw.lack(section), out);
    }
    let stdout = String::from_utf8_lossy(&raw.stdout);
    let rows: Vec<Row<'_>> = stdout.lines().filter_map(Row::parse).collect();
    let native = rows.iter().find(|row| row.name == "dpkg").map_or("", |row| row.arch);
    let said = String::from_utf8_lossy(&raw.stderr);
    for probe in &section.probes {
        let Some(name) = name(probe) else { continue };
        let answer = match find(&rows, name, native) {
            Some(row) => Ok(Reading::Package(row.state())),
            None if absent(&said, name, raw.end) => Ok(Reading::Package(not_installed())),
            None => Err(raw.lack(section)),
        };
        out.insert(probe.clone(), answer);
    }
}

/// Finds the row of `name`: of the architecture it names, else the native one, else the only one.
fn find<'a, 'b>(rows: &'b [Row<'a>], name: &str, native: &str) -> Option<&'b Row<'a>> {
    let (base, arch) = name.split_once(':').map_or((name, None), |(base, arch)| (base, Some(arch)));
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

fn absent(said: &str, name: &str, end: End) -> bool {
    let line = format!("no packages found matching {name}");
    end == End::Exited(1) && said.lines().any(|l| l.ends_with(&line))
}

fn not_installed() -> PackageState {
    PackageState { status: "not-installed".to_owned(), ..PackageState::default() }
}

/// Adds to the answers of packages what `add` makes of each.
pub(crate) fn amend(section: &Section, out: &mut Observation, add: impl Fn(&str, &mut PackageState)) {
    for probe in &section.probes {
        let (Some(name), Ok(Reading::Package(state))) = (name(probe), out.get(probe).cloned()) else { continue };
        let mut state = state;
        add(name, &mut state);
        out.insert(probe.clone(), Ok::<_, Unknown>(Reading::Package(state)));
    }
}

#[cfg(test)]
mod tests;
