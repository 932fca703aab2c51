//! The command-line reference in Markdown, generated from the argument definitions.

use super::command;

/// Width in columns of the help text in the reference.
const WIDTH: usize = 110;

/// Returns the page: the `--help` text of every verb, then the global options.
pub fn markdown() -> String {
    let all = command();
    let mut page = String::from(
        "# The command line\n\nResults go to stdout, progress and logs to stderr. Each verb exits with one of the documented \
         [exit codes](exit-codes.md).\n",
    );
    for verb in all.get_subcommands() {
        let name = format!("forge {}", verb.get_name());
        page += &format!("\n## `{name}`\n\n{}", block(verb.clone().bin_name(name.clone())));
    }
    page += &format!("\n## Global options\n\n{}", block(all));
    page
}

fn block(command: clap::Command) -> String {
    let help = command.term_width(WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim_end())
}
