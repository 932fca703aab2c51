//! A page that teaches: its files are written, its commands are run, and what they print must be what it shows.

use super::host::Lab;
use std::fmt::Write;

/// What a fence of the page is.
#[derive(Clone, Copy, PartialEq)]
enum Fence {
    /// A file, whose first line is a comment with its name.
    File,
    /// Commands behind `$ `, each followed by what it prints.
    Console,
    Other,
}

/// Follows the page in the lab and returns it as it would be if it were true.
pub fn follow(page: &str, lab: &Lab) -> String {
    let (mut told, mut body, mut fence) = (String::new(), String::new(), None);
    for line in page.lines() {
        match (fence, line) {
            (None, "```yaml") => fence = Some(Fence::File),
            (None, "```console") => fence = Some(Fence::Console),
            (None, _) if line.starts_with("```") => fence = Some(Fence::Other),
            (Some(kind), "```") => {
                told.push_str(&close(kind, &body, lab));
                body.clear();
                fence = None;
            }
            (Some(_), _) => {
                writeln!(body, "{line}").unwrap();
                continue;
            }
            (None, _) => {}
        }
        writeln!(told, "{line}").unwrap();
    }
    told
}

fn close(kind: Fence, body: &str, lab: &Lab) -> String {
    let name = body.lines().next().and_then(|first| first.strip_prefix("# ")).filter(|name| name.ends_with(".yaml"));
    match (kind, name) {
        (Fence::File, Some(name)) => lab.file(name, body),
        (Fence::Console, _) => {
            return body.lines().filter(|line| line.starts_with("$ ")).map(|l| run(l, lab)).collect();
        }
        _ => {}
    }
    body.to_owned()
}

/// Runs the command of a line that begins with `$ `, and returns the line with what it printed.
pub fn run(line: &str, lab: &Lab) -> String {
    format!("{line}\n{}", steady(&lab.shell(&line["$ ".len()..])))
}

/// Puts fixed words in the place of what is another one every time: how long it took.
fn steady(said: &str) -> String {
    let mut steady = String::new();
    for line in said.lines().filter(|line| !is_progress(line)) {
        writeln!(steady, "{}", whole_seconds(&line.split(' ').map(word_of).collect::<Vec<_>>().join(" "))).unwrap();
    }
    steady
}

/// Progress begins with the time of day.
fn is_progress(line: &str) -> bool {
    line.len() > 8 && line.is_char_boundary(8) && shape(&line[..8]) == "00:00:00"
}

fn shape(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
}

/// On a busy machine something takes 10 s or more, which has no fraction: a line ends like that of an idle one.
fn whole_seconds(line: &str) -> String {
    let (start, end) = match line.strip_suffix(')') {
        Some(start) => (start, " s)"),
        None => (line, " s"),
    };
    let Some(start) = start.strip_suffix(" s") else { return line.to_owned() };
    match start.trim_end_matches(|c: char| c.is_ascii_digit()) {
        // A column of times is aligned to its right: `0.4` takes a place more than `10`.
        column if column.ends_with("  ") && column.len() + 2 == start.len() => {
            format!("{}0.4{end}", &column[..column.len() - 1])
        }
        before if before.ends_with('(') && before.len() < start.len() => format!("{before}0.4{end}"),
        _ => line.to_owned(),
    }
}

fn word_of(word: &str) -> &str {
    match shape(word).as_str() {
        "0.0" | "00.0" => "0.4",
        "(0.0" | "(00.0" => "(0.4",
        _ => word,
    }
}
