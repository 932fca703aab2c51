//! Selects hosts by Ansible-style patterns: `gpu:&rack_a:!canary`, `web,db`, `node-[1:3]`, `node-*`, `all`.

use super::range::RangePattern;
use crate::diag::{Diag, DiagCode, Span};
use crate::model::HostName;
use globset::{Glob, GlobMatcher};
use indexmap::IndexMap;

/// Hosts and groups that selectors match against.
pub(crate) struct SelectorUniverse<'a> {
    pub hosts: Vec<&'a str>,
    /// Host positions by name.
    index: IndexMap<&'a str, usize>,
    /// Position of the cluster's API: only its own name selects it, not `all` and no wildcard.
    apart: Option<usize>,
    pub groups: IndexMap<&'a str, Vec<usize>>,
}

impl<'a> SelectorUniverse<'a> {
    pub fn new(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let hosts: Vec<&str> = hosts.into_iter().collect();
        let index: IndexMap<&str, usize> = hosts.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let apart = index.get(HostName::CLUSTER).copied();
        Self { hosts, index, apart, groups: IndexMap::new() }
    }

    pub fn from_hosts_and_groups(
        hosts: &'a IndexMap<HostName, super::super::Host>,
        groups: &'a IndexMap<String, Vec<HostName>>,
    ) -> Self {
        let mut universe = Self::new(hosts.keys().map(HostName::as_str));
        groups.iter().for_each(|(name, members)| universe.add_group(name, members));
        universe
    }

    /// Adds a group. Hosts that the inventory does not declare any more are not in it.
    pub fn add_group(&mut self, name: &'a str, hosts: &[HostName]) {
        let members = hosts.iter().filter_map(|host| self.index.get(host.as_str()).copied()).collect();
        self.groups.insert(name, members);
    }

    fn candidate_names(&self) -> impl Iterator<Item = &'a str> {
        // `all` always exists, and is also in `groups` if the inventory sets variables for it.
        let all = ["all"].into_iter().filter(|all| !self.groups.contains_key(all));
        self.groups.keys().copied().chain(all).chain(self.hosts.iter().copied())
    }

    /// Returns the positions of the hosts that `text` selects, in inventory order.
    ///
    /// # Errors
    /// The first error: invalid syntax, an unknown name, or no matching host.
    pub fn select(&self, text: &str, span: Option<Span>) -> Result<Vec<usize>, Box<Diag>> {
        let terms = parse_terms(text)
            .map_err(|why| build_selector_diag(DiagCode::BadSelector, format!("selector `{text}`: {why}"), span))?;
        let mut chosen = self.initial_set(&terms);
        for sign in [SelectorOperator::Or, SelectorOperator::And, SelectorOperator::Not] {
            for term in terms.iter().filter(|term| term.sign == sign) {
                let set = self.select_term(term.name, span)?;
                chosen.iter_mut().zip(set).for_each(|(have, want)| *have = sign.combine(*have, want));
            }
        }
        let chosen: Vec<usize> = chosen.iter().enumerate().filter_map(|(at, have)| have.then_some(at)).collect();
        match chosen.is_empty() {
            true => {
                Err(build_selector_diag(DiagCode::EmptySelector, format!("selector `{text}` matches no hosts"), span))
            }
            false => Ok(chosen),
        }
    }

    /// Returns the initial set. A selector without a plain term starts from all hosts.
    fn initial_set(&self, terms: &[SelectorTerm<'_>]) -> Vec<bool> {
        match terms.iter().all(|term| term.sign != SelectorOperator::Or) {
            true => self.select_all(),
            false => vec![false; self.hosts.len()],
        }
    }

    fn select_all(&self) -> Vec<bool> {
        (0..self.hosts.len()).map(|at| Some(at) != self.apart).collect()
    }

    fn select_term(&self, name: &str, span: Option<Span>) -> Result<Vec<bool>, Box<Diag>> {
        if name == "all" || name == "*" {
            return Ok(self.select_all());
        }
        if let Some(members) = self.groups.get(name) {
            return Ok(self.mark_positions(members.iter().copied()));
        }
        if name.contains(['*', '?']) {
            return self.select_glob(name, span);
        }
        let pattern = RangePattern::parse(name)
            .map_err(|why| build_selector_diag(DiagCode::BadRange, format!("selector `{name}`: {why}"), span))?;
        let mut members = Vec::new();
        for name in pattern.expand() {
            match (self.index.get(name.as_str()), self.groups.get(name.as_str())) {
                (Some(at), _) => members.push(*at),
                (None, Some(group)) => members.extend(group),
                (None, None) => return Err(self.build_unknown_diag(&name, span)),
            }
        }
        Ok(self.mark_positions(members))
    }

    fn select_glob(&self, name: &str, span: Option<Span>) -> Result<Vec<bool>, Box<Diag>> {
        let matcher = compile_glob(name)
            .map_err(|why| build_selector_diag(DiagCode::BadSelector, format!("selector `{name}`: {why}"), span))?;
        let mut set = self.select_all();
        set.iter_mut().zip(&self.hosts).for_each(|(have, host)| *have &= matcher.is_match(host));
        let matching = |group: &str| !group.starts_with('@') && matcher.is_match(group);
        for (_, members) in self.groups.iter().filter(|(group, _)| matching(group)) {
            members.iter().for_each(|at| set[*at] = true);
        }
        match set.contains(&true) {
            true => Ok(set),
            false => {
                Err(build_selector_diag(DiagCode::EmptySelector, format!("`{name}` matches no host or group"), span))
            }
        }
    }

    fn mark_positions(&self, members: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut set = vec![false; self.hosts.len()];
        members.into_iter().for_each(|at| set[at] = true);
        set
    }

    fn build_unknown_diag(&self, name: &str, span: Option<Span>) -> Box<Diag> {
        let diag = build_selector_diag(DiagCode::BadSelector, format!("`{name}` is neither a host nor a group"), span);
        if name.starts_with('@') && !self.groups.keys().any(|group| group.starts_with('@')) {
            return Box::new(diag.hint("only `--on` selects hosts by their outcome in the last run"));
        }
        Box::new(match suggest_numbered_host(name, &self.hosts) {
            Some(hint) => diag.hint(hint),
            None => diag.suggest_name(name, self.candidate_names()),
        })
    }
}

/// Suggests a numbered host. Edit distance misleads here: `gpu-3` may mean `gpu-03`, but hardly `gpu-2`.
pub(crate) fn suggest_numbered_host(name: &str, hosts: &[&str]) -> Option<String> {
    let letters = |text: &str| text.split(|c: char| c.is_ascii_digit()).collect::<String>();
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let (typed, wanted) = (letters(name), numbers(name));
    let alike: Vec<&str> = hosts.iter().copied().filter(|host| letters(host) == typed).collect();
    if wanted.is_empty() || alike.is_empty() {
        return None;
    }
    Some(match (alike.iter().find(|host| numbers(host) == wanted), alike.as_slice()) {
        (Some(host), _) => format!("did you mean `{host}`?"),
        (None, [only]) => format!("the only host with a similar name is `{only}`"),
        (None, [first, .., last]) => format!("{} hosts have similar names: `{first}` to `{last}`", alike.len()),
        (None, []) => return None,
    })
}

fn build_selector_diag(code: DiagCode, message: String, span: Option<Span>) -> Box<Diag> {
    let diag = Diag::error(code, message);
    Box::new(match span {
        Some(span) => diag.with_span(span),
        None => diag,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum SelectorOperator {
    Or,
    And,
    Not,
}

impl SelectorOperator {
    fn combine(self, have: bool, want: bool) -> bool {
        match self {
            Self::Or => have || want,
            Self::And => have && want,
            Self::Not => have && !want,
        }
    }
}

struct SelectorTerm<'t> {
    sign: SelectorOperator,
    name: &'t str,
}

fn parse_terms(text: &str) -> Result<Vec<SelectorTerm<'_>>, String> {
    split_terms(text).into_iter().map(|part| parse_term(part.trim())).collect()
}

/// Splits at `,` and at `:` outside brackets: `node-[1:3]:!node-2` has two terms.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' || (c == ':' && depth <= 0)
    })
    .collect()
}

fn parse_term(text: &str) -> Result<SelectorTerm<'_>, String> {
    let (sign, name) = match text.as_bytes().first() {
        Some(b'&') => (SelectorOperator::And, &text[1..]),
        Some(b'!') => (SelectorOperator::Not, &text[1..]),
        _ => (SelectorOperator::Or, text),
    };
    match name {
        "" => Err("a name is missing".to_owned()),
        _ if name.starts_with('~') => Err("regular expressions are not supported; use `*` and `?`".to_owned()),
        _ => Ok(SelectorTerm { sign, name }),
    }
}

/// Compiles a wildcard. Only `*` and `?` are wildcards; `[1:3]` is a range, not a character class.
fn compile_glob(name: &str) -> Result<GlobMatcher, String> {
    if name.contains(['[', ']', '{', '}', '\\']) {
        return Err("a wildcard and a range cannot be combined".to_owned());
    }
    Glob::new(name).map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn universe() -> SelectorUniverse<'static> {
        let mut universe = SelectorUniverse::new(["node-1", "node-2", "node-3", "login"]);
        universe.groups.insert("gpu", vec![0, 1, 2]);
        universe.groups.insert("rack_a", vec![0, 1, 3]);
        universe.groups.insert("canary", vec![0]);
        universe
    }

    #[test]
    fn outcomes_of_the_last_run_are_groups_without_wildcards() {
        let mut universe = universe();
        let unknown = universe.select("@failed", None).unwrap_err();
        assert_eq!(unknown.hint.as_deref(), Some("only `--on` selects hosts by their outcome in the last run"));
        universe.add_group("@failed", &["node-2", "gone"].map(HostName::new));
        assert_eq!(universe.select("@failed", None).unwrap(), [1]);
        assert_eq!(universe.select("gpu:!@failed", None).unwrap(), [0, 2]);
        assert!(universe.select("*failed", None).is_err());
        assert!(universe.select("@fialed", None).unwrap_err().hint.is_some_and(|hint| hint.contains("`@failed`")));
    }

    fn select(text: &str) -> Result<Vec<&'static str>, String> {
        let universe = universe();
        let found = universe.select(text, None).map_err(|d| match d.hint {
            Some(hint) => format!("{} ({hint})", d.message),
            None => d.message,
        })?;
        Ok(found.into_iter().map(|at| universe.hosts[at]).collect())
    }

    #[test]
    fn terms_combine_as_in_ansible() {
        assert_eq!(select("gpu:&rack_a:!canary").unwrap(), ["node-2"]);
        assert_eq!(select("!canary:gpu").unwrap(), ["node-2", "node-3"]);
        assert_eq!(select("canary,login").unwrap(), ["node-1", "login"]);
        assert_eq!(select("node-[2:3]:!node-3").unwrap(), ["node-2"]);
        assert_eq!(select("node-*").unwrap(), ["node-1", "node-2", "node-3"]);
        assert_eq!(select("rack_?").unwrap(), ["node-1", "node-2", "login"]);
        assert_eq!(select("!gpu").unwrap(), ["login"]);
        assert_eq!(select("all").unwrap().len(), 4);
        assert_eq!(select("*").unwrap().len(), 4);
    }

    #[test]
    fn selector_errors_suggest_similar_names() {
        assert_eq!(select("gpus").unwrap_err(), "`gpus` is neither a host nor a group (did you mean `gpu`?)");
        assert_eq!(select("node-02").unwrap_err(), "`node-02` is neither a host nor a group (did you mean `node-2`?)");
        assert_eq!(
            select("node-7").unwrap_err(),
            "`node-7` is neither a host nor a group (3 hosts have similar names: `node-1` to `node-3`)"
        );
        assert_eq!(select("gpu:!gpu").unwrap_err(), "selector `gpu:!gpu` matches no hosts");
        assert_eq!(select("db-*").unwrap_err(), "`db-*` matches no host or group");
        assert_eq!(select("gpu::all").unwrap_err(), "selector `gpu::all`: a name is missing");
        assert_eq!(select("~x").unwrap_err(), "selector `~x`: regular expressions are not supported; use `*` and `?`");
        assert_eq!(select("node-[1:").unwrap_err(), "selector `node-[1:`: a range is not closed");
    }
}
