//! The command-line reference in Markdown, generated from the argument definitions.

use super::build_cli_command;

/// Width in columns of the help text in the reference.
const HELP_WIDTH: usize = 110;

/// Returns the page: the `--help` text of every verb, then the global options.
pub fn render_markdown() -> String {
    let all = build_cli_command();
    let mut page = String::from(
        "# The command line\n\nResults go to stdout, progress and logs to stderr. Each verb exits with one of the documented \
         [exit codes](exit-codes.md).\n",
    );
    for verb in all.get_subcommands() {
        let name = format!("forge {}", verb.get_name());
        page += &format!("\n## `{name}`\n\n{}", render_help_block(verb.clone().bin_name(name.clone())));
    }
    page += &format!("\n## Global options\n\n{}", render_help_block(all));
    page
}

fn render_help_block(command: clap::Command) -> String {
    let help = command.term_width(HELP_WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim_end())
}
