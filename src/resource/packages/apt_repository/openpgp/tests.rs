//! Parses keys exported by `gpg` and rejects other input.

use super::*;

const FLEET: &str = include_str!("../../../../../tests/fixtures/openpgp/fleet.asc");
const OTHER: &str = include_str!("../../../../../tests/fixtures/openpgp/other.asc");
/// As `gpg --show-keys` prints them.
const FLEET_PRINT: &str = "7CFE583D26F951011FC314E53AA93CBCF0D184F9";
const OTHER_PRINT: &str = "0850D95DCCDA652376EA1B00325FE59685CAC6B3";

#[test]
fn fingerprint_matches_gpg_for_armored_and_binary_keys() {
    assert_eq!(read_fingerprints(FLEET.as_bytes()), Ok(vec![FLEET_PRINT.to_owned()]));
    let binary = decode_armor(FLEET).unwrap();
    assert!(!is_armored(&binary) && is_armored(FLEET.as_bytes()));
    assert_eq!(read_fingerprints(&binary), Ok(vec![FLEET_PRINT.to_owned()]));
}

#[test]
fn all_keys_in_a_file_are_read() {
    let both = format!("{FLEET}\n{OTHER}");
    assert_eq!(read_fingerprints(both.as_bytes()), Ok(vec![OTHER_PRINT.to_owned(), FLEET_PRINT.to_owned()]));
    let headed = FLEET.replacen("BLOCK-----\n", "BLOCK-----\nVersion: 1\nComment: x=y\n", 1);
    assert_eq!(read_fingerprints(headed.as_bytes()), Ok(vec![FLEET_PRINT.to_owned()]));
}

#[test]
fn private_invalid_and_truncated_keys_are_rejected() {
    let cut = &FLEET[..FLEET.len() / 2];
    assert_eq!(read_fingerprints(cut.as_bytes()), Err(OpenPgpKeyError::Broken));
    assert_eq!(read_fingerprints(b"hello"), Err(OpenPgpKeyError::Broken));
    assert_eq!(read_fingerprints(b""), Err(OpenPgpKeyError::None));
    let private = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ==\n-----END PGP PRIVATE KEY BLOCK-----\n";
    assert_eq!(read_fingerprints(private.as_bytes()), Err(OpenPgpKeyError::Private));
    let binary = decode_armor(FLEET).unwrap();
    assert_eq!(read_fingerprints(&binary[..binary.len() - 1]), Err(OpenPgpKeyError::Broken));
}

/// Old packet headers with one, two and four length bytes, new ones with one, two and five.
#[test]
fn all_packet_length_encodings_are_parsed() {
    let body = vec![3u8; 300];
    let framed = |head: &[u8], body: &[u8]| [head, body].concat();
    let cases = [
        framed(&[0x98, 10], &body[..10]),
        framed(&[0x99, 1, 44], &body),
        framed(&[0x9a, 0, 0, 1, 44], &body),
        framed(&[0xc6, 10], &body[..10]),
        framed(&[0xc6, 192, 108], &body),
        framed(&[0xc6, 255, 0, 0, 1, 44], &body),
    ];
    for bytes in cases {
        assert_eq!(
            split_packet(&bytes).map(|(tag, _, rest)| (tag, rest.len())),
            Some((PUBLIC_KEY, 0)),
            "{:?}",
            &bytes[..3]
        );
        assert_eq!(read_fingerprints(&bytes), Err(OpenPgpKeyError::Version(3)));
    }
    assert_eq!(split_packet(&[0x9b, 1, 2]), None, "a length that ends with the input");
    assert_eq!(split_packet(&[0xc6, 224, 1]), None, "a partial length");
}
