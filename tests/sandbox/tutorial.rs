//! Follows a tutorial page: writes its files, runs its commands, and returns the page with their real output.

use super::host::Lab;
use std::fmt::Write;

/// The meaning of a fenced block.
#[derive(Clone, Copy, PartialEq)]
enum Fence {
    /// A file. Its first line is a comment with its name.
    File,
    /// Commands after `$ `, each followed by its output.
    Console,
    Other,
}

/// Follows the page in the lab and returns it with the real output of its commands.
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

/// Runs the command of a line that begins with `$ `, and returns the line followed by the output.
pub fn run(line: &str, lab: &Lab) -> String {
    format!("{line}\n{}", steady(&lab.shell(&line["$ ".len()..])))
}

/// Replaces durations, which differ from run to run, by fixed ones.
fn steady(said: &str) -> String {
    let mut steady = String::new();
    for line in said.lines().filter(|line| !is_progress(line)) {
        writeln!(steady, "{}", whole_seconds(&line.split(' ').map(word_of).collect::<Vec<_>>().join(" "))).unwrap();
    }
    steady
}

/// Reports whether it is a line of progress, which begins with the time of day.
fn is_progress(line: &str) -> bool {
    line.len() > 8 && line.is_char_boundary(8) && shape(&line[..8]) == "00:00:00"
}

fn shape(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
}

/// Replaces a final duration without a fraction: 10 s or more, which occurs only on a busy machine.
fn whole_seconds(line: &str) -> String {
    let (start, end) = match line.strip_suffix(')') {
        Some(start) => (start, " s)"),
        None => (line, " s"),
    };
    let Some(start) = start.strip_suffix(" s") else { return line.to_owned() };
    match start.trim_end_matches(|c: char| c.is_ascii_digit()) {
        // A column of times is right-aligned: `0.4` is one character longer than `10`.
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
