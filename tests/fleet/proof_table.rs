//! docs/reference/proofs.md: kinds and recipes, and on which distributions each is proven, with the reason for each cell
//! that is not.

use super::labels::{ProofCell, ProofPlace, SubjectProof};

/// One row: the page below docs/reference that it links to, and its proof.
pub struct ProofRow {
    pub name: String,
    pub page: String,
    pub proof: SubjectProof,
}

const HEAD: &str = "# Proofs

Which kinds and built-in recipes are proven on which distributions. The page is generated from the proof files of
`tests/fleet`; `scripts/test` fails if a cell says `real` or `profile` but its proof did not pass.

- **real**: applied to hosts of the test fleet over SSH with the real programs of that release of Debian, applied again
  without changes, verified, changed outside forge, repaired and removed. On Debian 12 with every change of the proof, on
  Debian 11 and 13 with its first change. Columns of other distributions have no `real`: none of their hosts is part of
  the tests.
- **profile**: the same with simulated hardware, or with stand-ins for the vendor's packages. In the columns of Ubuntu
  and Rocky: on a host with Debian 12's programs that claims to be that distribution, with packages like those of its
  vendors, and with the first change of the proof.
- **recorded**: only cases with recorded or reconstructed answers test it; the number gives the reason.

";

/// Returns the page. `tables` has the title and the rows of each table.
pub fn render_proof_table(tables: &[(&str, Vec<ProofRow>)]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let body: String =
        tables.iter().map(|(title, rows)| format!("## {title}\n\n{}\n", render_rows(rows, &mut reasons))).collect();
    let reasons = reasons.iter().enumerate().map(|(at, reason)| format!("{}. {reason}\n", at + 1));
    HEAD.to_owned() + &body + "## Reasons\n\n" + &reasons.collect::<String>()
}

fn render_rows(rows: &[ProofRow], reasons: &mut Vec<String>) -> String {
    let places: Vec<ProofPlace> =
        rows.first().map(|row| row.proof.cells.iter().map(|(place, _)| *place).collect()).unwrap_or_default();
    let mut text = "| |".to_owned();
    places.iter().for_each(|place| text += &format!(" {} |", place.title()));
    text += &format!("\n|---|{}\n", "---|".repeat(places.len()));
    for row in rows {
        text += &format!("| [`{}`]({}) |", row.name, row.page);
        row.proof.cells.iter().for_each(|(_, cell)| text += &format!(" {} |", render_cell(cell, reasons)));
        text += "\n";
    }
    text
}

fn render_cell(cell: &ProofCell, reasons: &mut Vec<String>) -> String {
    match cell {
        ProofCell::Real => "real".to_owned(),
        ProofCell::Profile => "profile".to_owned(),
        ProofCell::Recorded(reason) => {
            let at = reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
                reasons.push(reason.clone());
                reasons.len() - 1
            });
            format!("recorded ({})", at + 1)
        }
    }
}
