//! The reference of the command line in Markdown, made from the very arguments that are parsed.

use super::command;

/// Columns that help is laid out for in the reference.
const WIDTH: usize = 110;

/// Returns the page: one part per verb, with its help as `--help` prints it, flags of every verb once.
pub fn markdown() -> String {
    let all = command();
    let mut page = String::from(
        "# The command line\n\nResults go to stdout, progress and logs to stderr. Each verb ends with one of the documented \
         [exit codes](exit-codes.md).\n",
    );
    for verb in all.get_subcommands() {
        let name = format!("forge {}", verb.get_name());
        page += &format!("\n## `{name}`\n\n{}", block(verb.clone().bin_name(name.clone())));
    }
    page += &format!("\n## Everywhere\n\n{}", block(all));
    page
}

fn block(command: clap::Command) -> String {
    let help = command.term_width(WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim_end())
}
