//! Computes fingerprints of OpenPGP public keys from the key itself, so that the host needs no tool.
//!
//! Parses only armor, packet headers and the input of the fingerprint digest (RFC 4880 §12.2, RFC 9580 §5.5.4). apt
//! verifies signatures.

use base64::Engine as _;
use sha1::{Digest, Sha1};

/// Reasons why bytes are not a public key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::resource::packages) enum OpenPgpKeyError {
    /// Malformed or truncated OpenPGP packets.
    Broken,
    /// Valid packets without a public key.
    None,
    Private,
    /// An unsupported key version.
    Version(u8),
}

impl OpenPgpKeyError {
    pub fn describe(&self) -> String {
        match self {
            Self::Broken => "malformed or truncated OpenPGP data".to_owned(),
            Self::None => "no public key found".to_owned(),
            Self::Private => "it is a private key".to_owned(),
            Self::Version(version) => format!("key version {version} is not supported"),
        }
    }
}

const PUBLIC_KEY: u8 = 6;
const SECRET_KEY: u8 = 5;
const ARMOR_BEGIN: &str = "-----BEGIN PGP ";

/// Reports whether the key is armored text.
pub(in crate::resource::packages) fn is_armored(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(ARMOR_BEGIN))
}

/// Returns the fingerprints of all primary keys in `bytes`, armored or not, as upper-case hex, sorted.
pub(in crate::resource::packages) fn read_fingerprints(bytes: &[u8]) -> Result<Vec<String>, OpenPgpKeyError> {
    let binary = match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(ARMOR_BEGIN) => decode_armor(text)?,
        _ => bytes.to_vec(),
    };
    let mut found = Vec::new();
    let mut rest = binary.as_slice();
    while !rest.is_empty() {
        let (tag, body, after) = split_packet(rest).ok_or(OpenPgpKeyError::Broken)?;
        match tag {
            PUBLIC_KEY => found.push(compute_fingerprint(body)?),
            SECRET_KEY => return Err(OpenPgpKeyError::Private),
            _ => {}
        }
        rest = after;
    }
    found.sort();
    found.dedup();
    if found.is_empty() { Err(OpenPgpKeyError::None) } else { Ok(found) }
}

/// Checks that a key file contains exactly the pinned keys; apt would trust additional keys, too.
pub(in crate::resource::packages) fn check_pinned(key: &[u8], pinned: &[String]) -> Result<(), String> {
    let found = read_fingerprints(key).map_err(|why| why.describe())?;
    match found == pinned {
        true => Ok(()),
        false => Err(format!("found {}, expected {}", found.join(" and "), pinned.join(" and "))),
    }
}

/// Decodes every armored block; base64 is between the headers and the checksum.
fn decode_armor(text: &str) -> Result<Vec<u8>, OpenPgpKeyError> {
    let mut bytes = Vec::new();
    for block in text.split(ARMOR_BEGIN).skip(1) {
        if block.starts_with("PRIVATE") {
            return Err(OpenPgpKeyError::Private);
        }
        let lines = block.lines().skip(1).map(str::trim);
        let mut lines = lines.skip_while(|line| !line.is_empty()).skip(1).peekable();
        let mut body = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(['=', '-'])) {
            body.push_str(line);
        }
        // Without the end marker the block is truncated.
        lines.find(|line| line.starts_with("-----END PGP ")).ok_or(OpenPgpKeyError::Broken)?;
        bytes.extend(base64::engine::general_purpose::STANDARD.decode(body).map_err(|_| OpenPgpKeyError::Broken)?);
    }
    Ok(bytes)
}

/// Splits off the first packet and returns its tag, its body and the remaining bytes. Rejects partial and indeterminate
/// lengths, which key packets do not use.
fn split_packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first()?;
    if head & 0x80 == 0 {
        return None;
    }
    let (tag, (length, rest)) = match head & 0x40 {
        0 => ((head >> 2) & 0x0f, read_old_length(head & 3, rest)?),
        _ => (head & 0x3f, read_new_length(rest)?),
    };
    let (body, after) = rest.split_at_checked(length)?;
    Some((tag, body, after))
}

fn read_old_length(kind: u8, rest: &[u8]) -> Option<(usize, &[u8])> {
    let size = match kind {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return None,
    };
    let (length, rest) = rest.split_at_checked(size)?;
    Some((read_big_endian(length), rest))
}

fn read_new_length(rest: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = rest.split_first()?;
    match first {
        0..192 => Some((usize::from(*first), rest)),
        192..224 => {
            let (second, rest) = rest.split_first()?;
            Some(((usize::from(*first) - 192) * 256 + usize::from(*second) + 192, rest))
        }
        255 => rest.split_at_checked(4).map(|(length, rest)| (read_big_endian(length), rest)),
        _ => None,
    }
}

fn read_big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn compute_fingerprint(body: &[u8]) -> Result<String, OpenPgpKeyError> {
    match body.first() {
        Some(4) => {
            let length = u16::try_from(body.len()).map_err(|_| OpenPgpKeyError::Broken)?;
            let digest = Sha1::new().chain_update([0x99]).chain_update(length.to_be_bytes()).chain_update(body);
            Ok(format_hex(&digest.finalize()))
        }
        Some(6) => {
            let length = u32::try_from(body.len()).map_err(|_| OpenPgpKeyError::Broken)?;
            let digest = sha2::Sha256::new().chain_update([0x9b]).chain_update(length.to_be_bytes()).chain_update(body);
            Ok(format_hex(&digest.finalize()))
        }
        Some(other) => Err(OpenPgpKeyError::Version(*other)),
        None => Err(OpenPgpKeyError::Broken),
    }
}

fn format_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests;
