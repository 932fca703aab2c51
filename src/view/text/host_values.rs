//! Folds a step whose text differs only by values of its hosts: one host's text, and the differing words of the others.
//!
//! Architecture Invariant: the fold is exact. Texts are cut into words; two fold only where all that stands between words
//! is equal, and the words that differ are kept for each host: putting them into the text that is shown gives its own.

use super::group::Group;
use crate::model::HostName;
use crate::plan::StepPlan;
use crate::view::fold::fold;
use crate::view::{count, escape};
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Fewer different texts are shown whole.
const TEXTS: usize = 3;
/// A text of which more differs is another text: places of words, counted once where they differ alike.
const VALUES: usize = 6;
/// Values that are named without `-v`.
const NAMED: usize = 3;
/// Characters of a value at most: the whole is in the JSON output.
const VALUE_CHARS: usize = 80;

/// A step on hosts on which it is the same but for some values.
pub struct FoldedStep<'a> {
    /// The step as its first host has it, and all hosts.
    pub group: Group<'a>,
    /// The host whose text is shown.
    pub shown: &'a HostName,
    /// Empty where the text is the same on all hosts.
    pub values: Vec<HostValue<'a>>,
}

/// A word that differs by host.
#[derive(Debug, PartialEq)]
pub struct HostValue<'a> {
    /// Where it stands: `content line 3`.
    pub places: Vec<String>,
    /// The word of each host.
    pub words: Vec<(&'a HostName, &'a str)>,
}

/// Folds groups that `group::steps` returned.
pub fn fold_host_values(groups: Vec<Group<'_>>) -> Vec<FoldedStep<'_>> {
    let mut folded: Vec<FoldedStep<'_>> = Vec::new();
    let mut rest = groups.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut same = vec![first];
        while let Some(next) = rest.next_if(|next| next.step.id == same[0].step.id) {
            same.push(next);
        }
        folded.extend(fold_step(same));
    }
    folded
}

/// Folds the texts of one step. Each joins the first that it differs from by values alone.
fn fold_step(groups: Vec<Group<'_>>) -> Vec<FoldedStep<'_>> {
    let mut buckets: Vec<Vec<(Group<'_>, Vec<Word<'_>>)>> = Vec::new();
    for group in groups {
        let words = words(group.step);
        let fits = |bucket: &&mut Vec<(Group<'_>, Vec<Word<'_>>)>| {
            let (first, own) = &bucket[0];
            is_alike(first.step, group.step) && own.len() == words.len() && own.iter().zip(&words).all(Word::fits)
        };
        match buckets.iter_mut().find(fits) {
            Some(bucket) => bucket.push((group, words)),
            None => buckets.push(vec![(group, words)]),
        }
    }
    buckets.into_iter().flat_map(merge).collect()
}

/// Makes one of the texts of a bucket, unless they are too few or too different.
fn merge<'a>(bucket: Vec<(Group<'a>, Vec<Word<'a>>)>) -> Vec<FoldedStep<'a>> {
    let values = if bucket.len() < TEXTS { Vec::new() } else { differing(&bucket) };
    if values.is_empty() || values.len() > VALUES {
        return bucket.into_iter().map(|(group, _)| alone(group)).collect();
    }
    let mut groups = bucket.into_iter().map(|(group, _)| group);
    let Some(mut group) = groups.next() else { return Vec::new() };
    let shown = group.hosts[0];
    groups.for_each(|other| group.hosts.extend(other.hosts));
    vec![FoldedStep { group, shown, values }]
}

fn alone(group: Group<'_>) -> FoldedStep<'_> {
    FoldedStep { shown: group.hosts[0], group, values: Vec::new() }
}

/// Returns the words in which texts differ; places that differ alike are one value.
fn differing<'a>(bucket: &[(Group<'a>, Vec<Word<'a>>)]) -> Vec<HostValue<'a>> {
    let columns: Vec<Vec<&'a str>> =
        (0..bucket[0].1.len()).map(|at| bucket.iter().map(|(_, words)| words[at].text).collect()).collect();
    // A word that stands twice in a line, and differs otherwise there, is told by its number.
    let mut meant: HashMap<(&str, &str), &[&str]> = HashMap::new();
    let mut unclear: HashSet<(&str, &str)> = HashSet::new();
    for (first, column) in bucket[0].1.iter().zip(&columns) {
        if *meant.entry((&*first.place, first.text)).or_insert(column.as_slice()) != column.as_slice() {
            unclear.insert((&*first.place, first.text));
        }
    }
    let mut values: IndexMap<Vec<&'a str>, Vec<String>> = IndexMap::new();
    for (first, column) in bucket[0].1.iter().zip(&columns) {
        if column.iter().all(|word| *word == first.text) {
            continue;
        }
        let place = match unclear.contains(&(&*first.place, first.text)) {
            true => format!("{}, word {}", first.place, first.number),
            false => first.place.clone(),
        };
        let places = values.entry(column.clone()).or_default();
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let of_hosts = |column: Vec<&'a str>| {
        let each = bucket.iter().zip(column);
        each.flat_map(|((group, _), word)| group.hosts.iter().map(move |host| (*host, word))).collect()
    };
    values.into_iter().map(|(column, places)| HostValue { places, words: of_hosts(column) }).collect()
}

/// Everything but text: what a reader takes for the same step.
fn is_alike(one: &StepPlan, other: &StepPlan) -> bool {
    let shape = |step: &StepPlan| {
        let changes: Vec<_> = step.changes.iter().map(|change| (change.attribute.clone(), change.secret)).collect();
        (step.kind.clone(), step.verdict, step.disruption, step.scope, step.place.clone(), changes)
    };
    let rest = |step: &StepPlan| (step.hint.clone(), step.envelope.clone(), step.waits_for.clone(), step.held.clone());
    shape(one) == shape(other) && rest(one) == rest(other)
}

/// A word of a step's text, or what stands between two.
#[derive(Clone, Debug, PartialEq)]
struct Word<'a> {
    place: String,
    /// Which word of its place it is, counted from 1; 0 for what stands between two.
    number: usize,
    text: &'a str,
    /// Whether hosts may have another one there.
    is_value: bool,
}

impl Word<'_> {
    fn fits((one, other): (&Word<'_>, &Word<'_>)) -> bool {
        one.place == other.place && one.is_value == other.is_value && (one.is_value || one.text == other.text)
    }
}

/// Cuts all text of a step that is shown.
fn words(step: &StepPlan) -> Vec<Word<'_>> {
    let mut out = Vec::new();
    cut("title", step.title.raw(), &mut out);
    cut("reason", step.reason.raw(), &mut out);
    for change in &step.changes {
        let name = &change.attribute;
        // Next to a diff the values are not shown: they are sizes and digests that follow from it.
        for (when, text) in [("before", &change.from), ("after", &change.to)] {
            let text = text.as_ref().filter(|_| change.diff.is_none());
            text.iter().for_each(|text| cut(&format!("{name} {when}"), text.raw(), &mut out));
        }
        let lines = change.diff.iter().flat_map(|diff| diff.raw().split('\n')).enumerate();
        lines.for_each(|(at, line)| cut_line(&format!("{name} line {}", at + 1), line, &mut out));
    }
    out
}

/// Cuts a line of a diff: its sign is no word, and the head of a hunk is one piece.
fn cut_line<'a>(place: &str, line: &'a str, out: &mut Vec<Word<'a>>) {
    let sign = usize::from(line.starts_with(['+', '-', ' ']));
    let (sign, rest) = if line.starts_with('@') { (line, "") } else { line.split_at(sign) };
    out.push(Word { place: place.to_owned(), number: 0, text: sign, is_value: false });
    cut(place, rest, out);
}

fn cut<'a>(place: &str, text: &'a str, out: &mut Vec<Word<'a>>) {
    let (mut rest, mut words) = (text, 0);
    // Even an empty text has a place, so that none takes another's.
    loop {
        let first = rest.chars().next().is_some_and(is_of_word);
        let end = rest.find(|c| is_of_word(c) != first).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        words += usize::from(first);
        out.push(Word { place: place.to_owned(), number: if first { words } else { 0 }, text, is_value: first });
        rest = after;
        if rest.is_empty() {
            return;
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "._-:/".contains(c)
}

impl FoldedStep<'_> {
    /// Returns which text is shown, and in what the others differ from it; no line where they are all equal.
    pub fn describe_values(&self, verbose: bool) -> Vec<String> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let shown = escape::line(self.shown.as_str());
        let head = format!("shown for {shown}; on the other hosts only these words differ:");
        std::iter::once(head).chain(self.values.iter().map(|value| format!("  {}", value.describe(verbose)))).collect()
    }
}

impl HostValue<'_> {
    fn describe(&self, verbose: bool) -> String {
        let mut text = format!("{}: ", escape::line(&crate::view::words::some(&self.places)));
        if self.words.iter().all(|(host, word)| host.as_str() == *word) {
            return text + "the name of the host";
        }
        let mut values: IndexMap<&str, Vec<&HostName>> = IndexMap::new();
        self.words.iter().for_each(|(host, word)| values.entry(word).or_default().push(host));
        let shown = if verbose { values.len() } else { NAMED.min(values.len()) };
        let one = |(word, hosts): (&&str, &Vec<&HostName>)| {
            let hosts = fold(hosts.iter().map(|host| host.as_str()));
            format!("{} on {}", escape::value(word, VALUE_CHARS), escape::line(&hosts))
        };
        text += &values.iter().take(shown).map(one).collect::<Vec<_>>().join(", ");
        if values.len() > shown {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " and {}; -v shows all", count(values.len() - shown, "more value"));
        }
        text
    }
}

#[cfg(test)]
mod tests;
