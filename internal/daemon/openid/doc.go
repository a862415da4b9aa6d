// Package openid lets people sign in to the console at the issuers of auth.jwt, by OpenID
// Connect with an authorization code and PKCE. It keeps no login: what has to be
// remembered goes with the browser.
package openid
