//! TLS: the certificate and its key, read again when they change.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use super::reload;

/// Where the certificate and its key are (PEM).
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and the chain up to one that clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why TLS can't be had.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there or not what it should be.
    #[error("{0}: {1}")]
    File(PathBuf, rustls::pki_types::pem::Error),
    /// There is no certificate in the file.
    #[error("{0}: there is no certificate in it")]
    Empty(PathBuf),
    /// They don't belong together, or are of a kind that is not known.
    #[error("{0} and {1}: {2}")]
    Pair(PathBuf, PathBuf, rustls::Error),
    /// The library refused its settings.
    #[error("TLS: {0}")]
    Settings(#[from] rustls::Error),
}

/// Speaks TLS with the certificate as it is now.
///
/// # Errors
/// When the certificate or the key can't be used.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let certificate = Arc::new(Current(RwLock::new(Arc::new(read(files)?))));
    let (watched, paths) = (Arc::clone(&certificate), files.clone());
    reload::watch(
        vec![files.certificate.clone(), files.key.clone()],
        move || match read(&paths) {
            Ok(pair) => {
                tracing::info!("the TLS certificate was read again");
                *watched.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
            }
            // The two files change one after the other: the next look may find a pair.
            Err(error) => tracing::error!("the TLS certificate stays as it was: {error}"),
        },
    );
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config = builder
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let in_file = |path: &Path| {
        let path = path.to_owned();
        move |error| TlsError::File(path, error)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(in_file(&files.certificate))?;
    if chain.is_empty() {
        return Err(TlsError::Empty(files.certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(in_file(&files.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| TlsError::Pair(files.certificate.clone(), files.key.clone(), error))
}

struct Current(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Current {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Current certificate")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}
