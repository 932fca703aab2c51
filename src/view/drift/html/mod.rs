//! Drift as one HTML page that needs nothing else: no network, no scripts from elsewhere.
//!
//! All that is to be read stands in the page as text; the script only hides, shows and links it, so that the page is the same
//! without it. Beside the text lies an island of JSON that says which hosts an entry is about: the text folds them.
//!
//! Architecture Invariant: text of hosts enters only through `escape`, and the policy of the page names the digests of its one
//! style and its one script: nothing else acts, whatever the page holds.

mod escape;
mod findings;
mod heat;
mod island;
mod odd;
mod summary;
mod trend;

use super::Told;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use escape::line;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Bytes of the page, or little more; detail that does not fit is counted and told.
///
/// A browser parses some megabytes in a tenth of a second; a page of this size is there at once on a slow machine too.
pub const LIMIT: usize = 2_000_000;

/// Writes the page.
pub fn html(told: &Told<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut island = island::Island::new(told.drift);
    let heat = heat::heat(told.drift, &mut island);
    // The style, the script, the head and the island, of which a host in an entry takes some bytes.
    let room = LIMIT.saturating_sub(heat.len() + STYLE.len() + SCRIPT.len() + 200_000);
    let odd = odd::section(told);
    let findings = findings::findings(told, &mut island, room.saturating_sub(odd.len()));
    let parts =
        [summary::head(told), summary::tiles(told), trend::trend(told.runs), CONTROLS.to_owned(), heat, findings, odd];
    write!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n{}</head>\n<body>\n", head(told))?;
    parts.iter().try_for_each(|part| out.write_all(part.as_bytes()))?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", island.json()?)?;
    write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// Without the script there is nothing to control.
const CONTROLS: &str = "<section id=\"controls\" hidden>
<label>search <input id=\"q\" type=\"search\" placeholder=\"host, recipe, text\" autocomplete=\"off\" spellcheck=\"false\"></label>
<label>severity <select id=\"severity\"><option value=\"\">all</option><option>critical</option><option>high</option><option>medium</option><option>low</option><option>unknown</option><option>unreachable</option></select></label>
<label>cause <select id=\"cause\"><option value=\"\">all</option></select></label>
<span id=\"chips\"></span>
<output id=\"shown\"></output>
<button id=\"clear\" type=\"button\">clear</button>
</section>
";

fn head(told: &Told<'_>) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    );
    format!(
        "<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"referrer\" content=\"no-referrer\">
<link rel=\"icon\" href=\"data:,\">
<title>forge drift: {}, {}</title>
<style>{STYLE}</style>
",
        line(&told.drift.cluster),
        line(&told.drift.time),
    )
}

fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
