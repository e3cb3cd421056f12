//! What is done with a message before rmcp gets it.
//!
//! rmcp discards a client's notifications that come without a session, and knows neither principals
//! nor limits. So answers to tool calls are taken here, runs are admitted or refused, and sessions are
//! shown to nobody but their owners.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};

use super::{
    body::{Bodies, BodyError, ReadBody},
    early, patience,
    session::{Session, request_id},
    sessions::{NoSession, Sessions},
};
use crate::{
    gate::{PendingCalls, Principal, RouteError},
    server::{
        admission::{Admission, NotAdmitted, Ticket},
        message::{self, CALL_METHOD, Envelope, INITIALIZE_METHOD, RESPONSE_METHOD, Refusal},
        metrics::Metrics,
    },
};

const SESSION_HEADER: &str = "mcp-session-id";
const LAST_EVENT_HEADER: &str = "last-event-id";

/// When it may be worth trying again (seconds).
const TRY_AGAIN: &str = "1";

/// What messages are held against.
pub struct Inbox {
    /// The calls that wait for an answer.
    pub pending: Arc<PendingCalls>,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// The door for runs.
    pub admission: Arc<Admission>,
    /// What bodies may use.
    pub bodies: Bodies,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Takes every request to the MCP endpoint.
pub async fn receive(
    State(inbox): State<Arc<Inbox>>,
    mut request: Request,
    next: Next,
) -> Response {
    // `authenticate` ran before this.
    let principal = request.extensions().get::<Principal>().cloned();
    let principal = principal.unwrap_or_else(Principal::anonymous);
    let session = match inbox.session(request.headers(), &principal) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if session.is_none() {
        // Whatever it names is not this client's, and nothing behind this must find it.
        request.headers_mut().remove(SESSION_HEADER);
    }
    if request.method() != Method::POST {
        return other_than_post(request, session.as_deref(), next).await;
    }
    let body = std::mem::take(request.body_mut());
    match inbox.bodies.read(body, &principal).await {
        Ok(body) => inbox.take(request, body, &principal, session, next).await,
        Err(error) => inbox.refuse_body(&principal, &error),
    }
}

/// Listening, coming back, and ending a session.
async fn other_than_post(request: Request, session: Option<&Session>, next: Next) -> Response {
    let came_back = request.headers().get(LAST_EVENT_HEADER);
    let came_back = came_back.filter(|_| request.method() == Method::GET);
    if let (Some(session), Some(id)) = (session, came_back)
        && !id.to_str().is_ok_and(|id| session.can_resume(id))
    {
        // An empty stream would have the client come back once more, for ever.
        let message = "there is no such stream (any more), or nothing more will be said on it";
        let refusal = Refusal::without_id(-32000, message.to_owned());
        return error(StatusCode::METHOD_NOT_ALLOWED, &refusal);
    }
    let is_end = request.method() == Method::DELETE;
    let mut response = next.run(request).await;
    if is_end && response.status() == StatusCode::ACCEPTED {
        // It is done; rmcp says that it will be, which clients take for a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

impl Inbox {
    /// The session that a request names, if it is the principal's: others don't exist for it.
    fn session(
        &self,
        headers: &HeaderMap,
        principal: &Principal,
    ) -> Result<Option<Arc<Session>>, Box<Response>> {
        let Some(id) = headers.get(SESSION_HEADER) else {
            return Ok(None);
        };
        let session = id
            .to_str()
            .ok()
            .and_then(|id| self.sessions.find(id, principal));
        if session.is_some() || declares_stateless(headers) {
            return Ok(session);
        }
        let message = "there is no such session (any more): begin a new one with `initialize`";
        Err(Box::new(error(
            StatusCode::NOT_FOUND,
            &Refusal::without_id(-32001, message.to_owned()),
        )))
    }

    async fn take(
        &self,
        mut request: Request,
        body: ReadBody,
        principal: &Principal,
        session: Option<Arc<Session>>,
        next: Next,
    ) -> Response {
        let outside = match message::envelope(&body.bytes) {
            Ok(outside) => outside,
            Err(refusal) => return error(StatusCode::BAD_REQUEST, &refusal),
        };
        if outside.method.as_deref() == Some(RESPONSE_METHOD) {
            return self.answer_call(principal, &body);
        }
        if let Some(refused) = refuse_second(session.as_deref(), &outside) {
            return refused;
        }
        let is_new_session =
            outside.method.as_deref() == Some(INITIALIZE_METHOD) && session.is_none();
        if is_new_session && let Err(refused) = self.sessions.make_room(principal).await {
            return self.refuse_session(&outside, &refused);
        }
        let ticket = match self.admit(principal, &outside) {
            Ok(ticket) => ticket,
            Err(refused) => return self.refuse_run(&outside, &refused),
        };
        if let Some(ticket) = &ticket {
            request.extensions_mut().insert(Arc::clone(ticket));
            // What was parsed lives as long as the run.
            request.extensions_mut().insert(Arc::clone(&body.share));
        }
        *request.body_mut() = Body::from(body.bytes.clone());
        let response = next.run(request);
        let response = match &ticket {
            Some(_) => early::respond(response, id_of(&outside)).await,
            None => response.await,
        };
        if is_new_session {
            self.claim(&response, principal);
        }
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
            && let Err(refusal) = message::parse(&body.bytes)
        {
            // rmcp says so of what it can't read; the media type was right.
            return error(StatusCode::BAD_REQUEST, &refusal);
        }
        match ticket {
            Some(ticket) => patience::holding(response, ticket),
            None => response,
        }
    }

    /// An answer to a tool call. One that can't be used is dropped with a warning: an error would make some
    /// clients give their whole connection up.
    fn answer_call(&self, principal: &Principal, body: &ReadBody) -> Response {
        let resolved = message::params(&body.bytes)
            .map_err(|refusal| refusal.message)
            .and_then(|params| {
                let resolved = self.pending.resolve(principal, params);
                resolved.map_err(|dropped| dropped.to_string())
            });
        if let Err(reason) = resolved {
            tracing::warn!("{reason}");
        }
        StatusCode::ACCEPTED.into_response()
    }

    /// An answer that is too long ends its call with an error, so that nobody waits in vain.
    fn refuse_body(&self, principal: &Principal, refused: &BodyError) -> Response {
        self.metrics.refused("body");
        if let BodyError::TooLong { ends, .. } = refused
            && let Some(request_id) = message::answered_call(ends)
        {
            tracing::warn!("a tool_call_response was dropped: {refused}");
            let answer = Err(RouteError::Failed(format!(
                "the answer is too large: {refused}"
            )));
            if let Err(dropped) = self.pending.answer(principal, &request_id, answer) {
                tracing::warn!("{dropped}");
            }
            return StatusCode::ACCEPTED.into_response();
        }
        busy(refused.status(), &Value::Null, &refused.to_string())
    }

    fn admit(
        &self,
        principal: &Principal,
        outside: &Envelope,
    ) -> Result<Option<Arc<Ticket>>, NotAdmitted> {
        if outside.method.as_deref() != Some(CALL_METHOD) {
            return Ok(None);
        }
        let ticket = self.admission.enter(principal)?;
        Ok(Some(Arc::new(ticket)))
    }

    fn claim(&self, response: &Response, principal: &Principal) {
        let id = response.headers().get(SESSION_HEADER);
        if let Some(id) = id.and_then(|id| id.to_str().ok()) {
            self.sessions.claim(id, principal);
        }
    }

    fn refuse_run(&self, outside: &Envelope, refused: &NotAdmitted) -> Response {
        let (status, reason) = match refused {
            NotAdmitted::Full { .. } => (StatusCode::TOO_MANY_REQUESTS, "runs"),
            NotAdmitted::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        };
        self.metrics.refused(reason);
        busy(status, &id_of(outside), &refused.to_string())
    }

    fn refuse_session(&self, outside: &Envelope, refused: &NoSession) -> Response {
        let status = match refused {
            NoSession::OfPrincipal(..) => StatusCode::TOO_MANY_REQUESTS,
            NoSession::Total(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        self.metrics.refused("sessions");
        busy(status, &id_of(outside), &refused.to_string())
    }
}

/// Requests of 2026-07-28 have no sessions: a stray header of that name means nothing there.
fn declares_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version");
    version.is_some_and(|version| version.as_bytes() >= b"2026-07-28".as_slice())
}

/// Two requests of one id can't be told apart when their answers come.
fn refuse_second(session: Option<&Session>, outside: &Envelope) -> Option<Response> {
    outside.method.as_ref()?;
    let id = outside.id.as_ref()?;
    if !session?.has_request(&request_id(id)?) {
        return None;
    }
    let refusal = Refusal {
        id: id.clone(),
        ..Refusal::without_id(
            -32600,
            format!("a request with the id {id} is under way in this session; ids must differ"),
        )
    };
    Some(error(StatusCode::BAD_REQUEST, &refusal))
}

fn id_of(outside: &Envelope) -> Value {
    outside.id.clone().unwrap_or_default()
}

fn error(status: StatusCode, refusal: &Refusal) -> Response {
    (status, Json(refusal.response())).into_response()
}

/// An error that may be gone in a moment.
fn busy(status: StatusCode, id: &Value, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": message}});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
        let after = HeaderValue::from_static(TRY_AGAIN);
        response.headers_mut().insert(RETRY_AFTER, after);
    }
    response
}
