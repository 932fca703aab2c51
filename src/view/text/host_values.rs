//! Folds a step whose text differs only in host-specific values: one host's text, and the other hosts' differing words.
//!
//! Architecture Invariant: the fold is lossless. Texts are split into words and fold only if everything between the
//! words is equal. The differing words are kept for each host: inserting them into the shown text gives the host's own
//! text.

use super::check_output::CheckOutput;
use super::group::StepGroup;
use crate::model::{self, HostName};
use crate::plan::StepPlan;
use crate::view::fold::fold_names;
use crate::view::{escape, format_count};
use hashbrown::DefaultHashBuilder;
use indexmap::{IndexMap, IndexSet};
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

/// Fewer different texts are shown in full.
const MIN_TEXTS_TO_FOLD: usize = 3;
/// Texts with more differing values are not folded. Words that differ in the same way count once.
const MAX_DIFFERING_VALUES: usize = 6;
/// So few groups are not worth a thread.
const MAX_GROUPS_PER_THREAD: usize = 2000;
/// Number of values that are named without `-v`.
const MAX_NAMED_VALUES: usize = 3;
/// Longer values are cut. The JSON output has the complete value. Characters.
const VALUE_CHARS: usize = 80;

/// A step on hosts on which it is equal except for some values.
pub struct FoldedStep<'a> {
    /// The step of the first host, and all hosts.
    pub group: StepGroup<'a>,
    /// The host whose text is shown.
    pub shown: &'a HostName,
    /// Empty if the text is the same on all hosts.
    pub values: Vec<HostValue<'a>>,
    /// The items of an `each` for which it is the same but for their names, with the shown one. Empty for one item.
    pub items: Vec<&'a str>,
}

/// A word that differs by host.
#[derive(Debug, PartialEq)]
pub struct HostValue<'a> {
    /// Its places: `content line 3`.
    pub places: Vec<String>,
    /// The word of each host.
    pub words: Vec<(&'a HostName, &'a str)>,
}

/// Folds groups that `group::steps` returned. Steps are folded on all cores if there are many groups: a step whose text
/// differs on each host has one group per host.
pub fn fold_host_values(groups: Vec<StepGroup<'_>>) -> Vec<FoldedStep<'_>> {
    let steps: Vec<&[StepGroup<'_>]> = groups.chunk_by(|one, next| one.step.id == next.step.id).collect();
    match groups.len() > MAX_GROUPS_PER_THREAD {
        true => model::map_large_parallel(&steps, |same| fold_step(same)).into_iter().flatten().collect(),
        false => steps.into_iter().flat_map(fold_step).collect(),
    }
}

/// Folds the texts of one step that differ only in values.
fn fold_step<'a>(groups: &[StepGroup<'a>]) -> Vec<FoldedStep<'a>> {
    let mut buckets: IndexMap<TextShape<'_>, Vec<&StepGroup<'a>>, DefaultHashBuilder> = IndexMap::default();
    for group in groups {
        buckets.entry(TextShape(group.step)).or_default().push(group);
    }
    buckets.into_values().flat_map(|bucket| merge_bucket(&bucket)).collect()
}

/// Merges the texts of a bucket into one, unless they are too few or too different.
fn merge_bucket<'a>(bucket: &[&StepGroup<'a>]) -> Vec<FoldedStep<'a>> {
    let values = if bucket.len() < MIN_TEXTS_TO_FOLD { Vec::new() } else { collect_differing_values(bucket) };
    let [first, ..] = bucket else { return Vec::new() };
    if values.is_empty() {
        return bucket.iter().map(|group| unfolded_step(StepGroup::clone(group))).collect();
    }
    let differs = |group: &&StepGroup<'a>| group.check_differs || group.step.check != first.step.check;
    let check_differs = bucket.iter().any(differs);
    let hosts = bucket.iter().flat_map(|group| group.hosts.iter().copied()).collect();
    let group = StepGroup { step: first.step, hosts, check_differs };
    vec![FoldedStep { group, shown: first.hosts[0], values, items: Vec::new() }]
}

fn unfolded_step(group: StepGroup<'_>) -> FoldedStep<'_> {
    FoldedStep { shown: group.hosts[0], group, values: Vec::new(), items: Vec::new() }
}

/// Returns the words that differ between texts of one shape. Places that differ in the same way are one value. Returns
/// none if there are more than [`MAX_DIFFERING_VALUES`].
fn collect_differing_values<'a>(bucket: &[&StepGroup<'a>]) -> Vec<HostValue<'a>> {
    let [first, others @ ..] = bucket else { return Vec::new() };
    let shown: Vec<TextWord<'a>> = split_words(first.step).collect();
    let Some(WordColumns { of_words, constant }) = compare_texts(&shown, others) else { return Vec::new() };
    // A word that occurs twice in a line and differs in different ways is identified by its number.
    let mut meant: HashMap<(WordPosition<'a>, &str), usize> = HashMap::new();
    let mut unclear: HashSet<(WordPosition<'a>, &str)> = HashSet::new();
    for (word, column) in shown.iter().zip(&of_words) {
        if *meant.entry((word.place, word.text)).or_insert(*column) != *column {
            unclear.insert((word.place, word.text));
        }
    }
    // By column: its first word, and the places of all its words.
    let mut values: IndexMap<usize, (usize, IndexSet<String>)> = IndexMap::new();
    for (at, (word, column)) in shown.iter().zip(&of_words).enumerate().filter(|(_, (_, column))| **column >= constant)
    {
        let place = match unclear.contains(&(word.place, word.text)) {
            true => format!("{}, word {}", word.place, word.number),
            false => word.place.to_string(),
        };
        values.entry(*column).or_insert_with(|| (at, IndexSet::new())).1.insert(place);
    }
    // Texts are split again instead of being stored: ten thousand of them are larger than the rest of a plan.
    let mut of_hosts: Vec<Vec<(&'a HostName, &'a str)>> = vec![Vec::new(); values.len()];
    for group in bucket {
        let mut own = split_words(group.step).enumerate();
        for ((first, _), of_hosts) in values.values().zip(&mut of_hosts) {
            // First words are in text order, so one pass finds them all.
            if let Some((_, word)) = own.find(|(at, _)| at == first) {
                of_hosts.extend(group.hosts.iter().map(|host| (*host, word.text)));
            }
        }
    }
    let all = values.into_values().zip(of_hosts);
    all.map(|((_, places), words)| HostValue { places: places.into_iter().collect(), words }).collect()
}

/// Words that differ in the same way in all other texts share a column.
struct WordColumns {
    /// The column of each word of the first text.
    of_words: Vec<usize>,
    /// Lower columns hold words that are the same in all texts.
    constant: usize,
}

/// Compares texts of one shape with the first of them. Returns `None` if they differ in more than [`MAX_DIFFERING_VALUES`] ways.
fn compare_texts<'a>(shown: &[TextWord<'a>], others: &[&StepGroup<'a>]) -> Option<WordColumns> {
    let mut texts: HashMap<&str, usize> = HashMap::new();
    let mut of_words: Vec<usize> = Vec::with_capacity(shown.len());
    for word in shown {
        let next = texts.len();
        of_words.push(*texts.entry(word.text).or_insert(next));
    }
    let constant = texts.len();
    let mut columns = constant;
    for group in others {
        // Words of one column stay together if this text has the same word for all of them.
        let mut parted: HashMap<(usize, &str), usize, DefaultHashBuilder> = HashMap::default();
        for ((word, own), column) in shown.iter().zip(split_words(group.step)).zip(&mut of_words) {
            if own.text != word.text {
                *column = *parted.entry((*column, own.text)).or_insert_with(|| {
                    columns += 1;
                    columns
                });
            }
        }
        let mut differing: Vec<usize> = Vec::new();
        for column in of_words.iter().filter(|column| **column >= constant) {
            if !differing.contains(column) {
                differing.push(*column);
            }
            if differing.len() > MAX_DIFFERING_VALUES {
                return None;
            }
        }
    }
    Some(WordColumns { of_words, constant })
}

/// A step as a key: equal to steps that differ only in values of hosts.
struct TextShape<'a>(&'a StepPlan);

impl PartialEq for TextShape<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.0, other.0);
        fixed_fields(one) == fixed_fields(other)
            && change_keys(one).eq(change_keys(other))
            && split_words(one).map(TextWord::shape).eq(split_words(other).map(TextWord::shape))
    }
}

impl Eq for TextShape<'_> {}

impl Hash for TextShape<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        fixed_fields(self.0).hash(state);
        change_keys(self.0).for_each(|change| change.hash(state));
        split_words(self.0).for_each(|word| word.shape().hash(state));
    }
}

/// Returns the fields of a step other than text and changes.
fn fixed_fields(step: &StepPlan) -> impl Hash + Eq + use<'_> {
    let rest = (&step.hint, &step.envelope, &step.waits_for, &step.held);
    (&step.kind, step.verdict, step.disruption, step.scope, &step.place, rest)
}

fn change_keys(step: &StepPlan) -> impl Iterator<Item = (&str, bool)> {
    step.changes.iter().map(|change| (change.attribute.as_str(), change.secret))
}

/// The place of a word. Formatted only for display, because a plan has millions of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WordPosition<'a> {
    Title,
    Reason,
    /// Why the change cannot be undone.
    Irreversible,
    /// The observed value of an attribute.
    Before(&'a str),
    /// Its desired value.
    After(&'a str),
    /// A line of the desired text, counted from 1.
    Line(&'a str, usize),
    /// A line of the observed text that the desired text lacks, counted from 1.
    RemovedLine(&'a str, usize),
}

impl fmt::Display for WordPosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title => f.write_str("title"),
            Self::Reason => f.write_str("reason"),
            Self::Irreversible => f.write_str("why it cannot be undone"),
            Self::Before(attribute) => write!(f, "{attribute} before"),
            Self::After(attribute) => write!(f, "{attribute} after"),
            // The attribute of kind `line`.
            Self::Line("line", number) => write!(f, "line {number}"),
            Self::RemovedLine("line", number) => write!(f, "removed line {number}"),
            Self::Line(attribute, number) => write!(f, "{attribute} line {number}"),
            Self::RemovedLine(attribute, number) => write!(f, "{attribute} removed line {number}"),
        }
    }
}

/// A word of a step's text, or the text between two words.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TextWord<'a> {
    place: WordPosition<'a>,
    /// Number of the word in its place, counted from 1. 0 for text between words.
    number: usize,
    text: &'a str,
    /// Whether it may differ between hosts.
    is_value: bool,
}

impl<'a> TextWord<'a> {
    /// Returns the part that must be equal on all hosts.
    fn shape(self) -> (WordPosition<'a>, Option<&'a str>) {
        (self.place, (!self.is_value).then_some(self.text))
    }
}

/// Splits the displayed text of a step into words.
fn split_words(step: &StepPlan) -> impl Iterator<Item = TextWord<'_>> {
    let irreversible = step.irreversible.as_ref().map(|why| (WordPosition::Irreversible, why.raw()));
    let head = [(WordPosition::Title, step.title.raw()), (WordPosition::Reason, step.reason.raw())];
    let head = head.into_iter().chain(irreversible);
    let changes = step.changes.iter().flat_map(|change| {
        let name = change.attribute.as_str();
        // With a diff the values are not shown: they are sizes and digests that follow from it.
        let values = [(WordPosition::Before(name), &change.from), (WordPosition::After(name), &change.to)];
        let values = values.into_iter().filter(move |_| change.diff.is_none());
        let values = values.filter_map(|(place, text)| Some(WordCutter::new(place, text.as_ref()?.raw())));
        let mut numbers = DiffLineNumbers { removed: 1, kept: 1 };
        let lines = change.diff.iter().flat_map(|diff| diff.raw().split('\n'));
        values.chain(lines.map(move |line| WordCutter::for_diff_line(numbers.locate(name, line), line)))
    });
    head.map(|(place, text)| WordCutter::new(place, text)).chain(changes).flatten()
}

/// The numbers of the next line in the observed and in the desired text.
struct DiffLineNumbers {
    removed: usize,
    kept: usize,
}

impl DiffLineNumbers {
    /// Returns the place of a line of a diff, and goes on to the next line. A hunk header sets the numbers.
    fn locate<'a>(&mut self, attribute: &'a str, line: &str) -> WordPosition<'a> {
        if let Some((removed, kept)) = parse_hunk_header(line) {
            (self.removed, self.kept) = (removed, kept);
            return WordPosition::Line(attribute, kept);
        }
        let (removed, kept) = (self.removed, self.kept);
        self.removed += usize::from(line.starts_with(['-', ' ']));
        self.kept += usize::from(line.starts_with(['+', ' ']));
        match line.starts_with('-') {
            true => WordPosition::RemovedLine(attribute, removed),
            false => WordPosition::Line(attribute, kept),
        }
    }
}

/// Returns the first line numbers of a hunk: of `@@ -3,2 +4 @@`, 3 and 4.
fn parse_hunk_header(line: &str) -> Option<(usize, usize)> {
    let (removed, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let first = |range: &str| range.split(',').next()?.parse::<usize>().ok();
    Some((first(removed)?, first(rest.split_once(' ')?.0)?))
}

/// Splits a text into words.
struct WordCutter<'a> {
    place: WordPosition<'a>,
    /// The sign of a diff line, which comes first.
    sign: Option<&'a str>,
    /// The text that is not split yet. An empty text still yields one item, so that places stay aligned.
    rest: Option<&'a str>,
    words: usize,
}

impl<'a> WordCutter<'a> {
    fn new(place: WordPosition<'a>, text: &'a str) -> Self {
        Self { place, sign: None, rest: Some(text), words: 0 }
    }

    /// Splits a line of a diff. Its sign is not a word; a hunk header is one piece, and so is the mark of a text that
    /// does not end with a line break.
    fn for_diff_line(place: WordPosition<'a>, line: &'a str) -> Self {
        let sign = usize::from(line.starts_with(['+', '-', ' ']));
        let (sign, rest) = if line.starts_with(['@', '\\']) { (line, "") } else { line.split_at(sign) };
        Self { sign: Some(sign), ..Self::new(place, rest) }
    }
}

impl<'a> Iterator for WordCutter<'a> {
    type Item = TextWord<'a>;

    fn next(&mut self) -> Option<TextWord<'a>> {
        let place = self.place;
        if let Some(text) = self.sign.take() {
            return Some(TextWord { place, number: 0, text, is_value: false });
        }
        let rest = self.rest?;
        let is_value = rest.chars().next().is_some_and(is_word_char);
        let end = rest.find(|c| is_word_char(c) != is_value).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        self.rest = (!after.is_empty()).then_some(after);
        self.words += usize::from(is_value);
        Some(TextWord { place, number: if is_value { self.words } else { 0 }, text, is_value })
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || "._-:/".contains(c)
}

impl<'a> FoldedStep<'a> {
    /// Returns what the check of the shown step printed, if it printed something.
    pub fn check_output(&self) -> Option<CheckOutput<'a>> {
        let text = self.group.step.check.as_ref().map(|check| check.output.raw()).filter(|text| !text.is_empty())?;
        Some(CheckOutput { text, shown_for: self.group.check_differs.then_some(self.shown) })
    }

    /// Returns `same for 1000 items but for their names: gpu[0001:1000]`; `None` for one item.
    pub fn describe_items(&self) -> Option<String> {
        let names = fold_names(self.items.iter().copied());
        let count = format_count(self.items.len(), "item");
        let line = || format!("same for {count} but for their names: {}", escape::escape_line(&names));
        (!self.items.is_empty()).then(line)
    }

    /// Describes which host's text is shown and how the others differ. Returns no lines if all are equal.
    pub fn describe_values(&self, verbose: bool) -> Vec<String> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let shown = escape::escape_line(self.shown.as_str());
        let head = format!("shown for {shown}; on the other hosts only these words differ:");
        std::iter::once(head)
            .chain(self.values.iter().map(|value| format!("  {}", value.describe_value(verbose))))
            .collect()
    }
}

impl HostValue<'_> {
    fn describe_value(&self, verbose: bool) -> String {
        let mut text = format!("{}: ", escape::escape_line(&crate::view::formatting::list_names(&self.places)));
        if self.words.iter().all(|(host, word)| host.as_str() == *word) {
            return text + "the host name";
        }
        let mut values: IndexMap<&str, Vec<&HostName>> = IndexMap::new();
        self.words.iter().for_each(|(host, word)| values.entry(word).or_default().push(host));
        let shown = if verbose { values.len() } else { MAX_NAMED_VALUES.min(values.len()) };
        let one = |(word, hosts): (&&str, &Vec<&HostName>)| {
            let hosts = fold_names(hosts.iter().map(|host| host.as_str()));
            format!("{} on {}", escape::escape_value(word, VALUE_CHARS), escape::escape_line(&hosts))
        };
        text += &values.iter().take(shown).map(one).collect::<Vec<_>>().join(", ");
        if values.len() > shown {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " and {}; -v shows all", format_count(values.len() - shown, "more value"));
        }
        text
    }
}

#[cfg(test)]
mod tests;
