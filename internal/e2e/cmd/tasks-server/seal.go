package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// sign authenticates state that the server gives to a client and gets back.
func (s *server) sign(data []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(data)
	return mac.Sum(nil)
}

func (s *server) signed(data, sum []byte) bool { return hmac.Equal(s.sign(data), sum) }

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func decodeText(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }
