package config

import "github.com/toolgate/toolgate/upstream/credential"

// AuthMode returns how toolgate authenticates to the server.
func (s *Server) AuthMode() credential.Mode {
	switch {
	case s.URL == "":
		return credential.Static
	case s.Auth.Mode != "":
		return s.Auth.Mode
	case len(s.Headers) > 0:
		return credential.Static
	}
	return credential.OAuth
}

// AuthPer returns whose the credential is that the server is shown.
func (s *Server) AuthPer() credential.Per {
	switch {
	case s.AuthMode() == credential.Static:
		return credential.PerShared
	case s.Auth.Per != "":
		return s.Auth.Per
	case s.AuthMode() == credential.Exchange && s.Auth.Exchange.Subject == "":
		return credential.PerPrincipal
	}
	return credential.PerShared
}
