//! Who calls: the API key and the signature (`api-protocol.md` 1.5). Whatever is wrong has one answer.

use secrecy::ExposeSecret;

use super::{Api, ApiError};
use crate::db::accounts;
use crate::domain::account::Caller;
use crate::protocol::{Fault, Params, signature};

/// The caller of a signed request.
///
/// # Errors
/// One and the same 401 for an unknown key, a wrong signature, an expired request and a disabled user.
pub async fn authenticate(api: &Api, params: &Params) -> Result<Caller, ApiError> {
    let refused = || ApiError::from(Fault::unauthenticated());
    let (Some(key), Some(given)) = (params.get("apikey"), params.get("signature")) else {
        return Err(refused());
    };
    let mut conn = api.state.pool.acquire().await?;
    let owner = accounts::by_api_key(&mut conn, key).await?;
    drop(conn);
    let Some(owner) = owner else {
        return Err(refused());
    };
    let place = accounts::secret_place(owner.caller.user_id);
    let secret = api.state.cipher.open_text(&place, &owner.sealed_secret)?;
    let genuine = signature::verify(params.pairs(), secret.expose_secret(), given);
    let fresh = signature::check_expiry(params.pairs(), api.state.clock.now()).is_ok();
    if genuine && fresh && owner.enabled {
        Ok(owner.caller)
    } else {
        Err(refused())
    }
}
