//! Keys and certificates of a laboratory and its agents, in PEM. Keys are of ECDSA with P-256.

use pyo3::prelude::*;
use rcgen::{
    date_time_ymd, BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::errors::run_error;

/// The key and the certificate of a new authority.
#[pyfunction]
pub(crate) fn authority(name: &str) -> PyResult<(String, String)> {
    made(|| {
        let key = KeyPair::generate()?;
        let certificate = authority_params(name)?.self_signed(&key)?;
        Ok((key.serialize_pem(), certificate.pem()))
    })
}

/// A new key and its certificate, signed by the authority of the name `issuer` and the key `issuer_key`. With a `host` it is for
/// a server that is reached under it, otherwise for a client. It holds up to the first of January of the year `until`.
#[pyfunction]
pub(crate) fn signed(
    issuer: &str,
    issuer_key: &str,
    name: &str,
    host: Option<&str>,
    until: i32,
) -> PyResult<(String, String)> {
    made(|| {
        let issuer = Issuer::new(authority_params(issuer)?, KeyPair::from_pem(issuer_key)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(host.map(str::to_owned).into_iter().collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(BEGIN, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let purpose =
            if host.is_some() { ExtendedKeyUsagePurpose::ServerAuth } else { ExtendedKeyUsagePurpose::ClientAuth };
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok((key.serialize_pem(), certificate.pem()))
    })
}

/// Returns the parameters of an authority's certificate; with its key, they also say who signs.
fn authority_params(name: &str) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(BEGIN, 1, 1);
    params.not_after = date_time_ymd(END, 1, 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

fn made(make: impl FnOnce() -> Result<(String, String), Error>) -> PyResult<(String, String)> {
    make().map_err(|error| run_error(&error))
}

/// Certificates hold from this year on, so that a host whose clock is late takes them too.
const BEGIN: i32 = 2020;
/// An authority holds as long as its laboratory.
const END: i32 = 2100;
