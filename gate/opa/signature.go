package opa

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
)

// signatureFile has the signature of a bundle (OPA, "Bundle signing").
const signatureFile = ".signatures.json"

// maxSignature bounds it, in bytes.
const maxSignature = 4 << 20

// signer is who signs bundles. Nil: nobody does.
type signer struct{ config *bundle.VerificationConfig }

// newSigner returns the signer whose public key, or certificate, a text in PEM has. The
// kind of key says how it signs: nobody who makes a bundle does.
func newSigner(text []byte) (*signer, error) {
	block, rest := pem.Decode(text)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it must hold one public key in PEM, which begins with -----BEGIN PUBLIC KEY-----")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = c.PublicKey
		}
	default:
		return nil, fmt.Errorf("it holds a %s and must hold a public key; the private one stays with who signs", strings.ToLower(block.Type))
	}
	if err != nil {
		return nil, fmt.Errorf("its public key cannot be read: %w", err)
	}
	algorithm := ""
	switch key := key.(type) {
	case *rsa.PublicKey:
		algorithm = "RS256"
	case *ecdsa.PublicKey:
		algorithm = map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	}
	if algorithm == "" {
		return nil, fmt.Errorf("its key is a %T, with which bundles are not signed; make one of RSA or ECDSA", key)
	}
	// The name of the key is ours: what a bundle says of it is not looked at.
	const id = "bundle_key"
	return &signer{bundle.NewVerificationConfig(map[string]*bundle.KeyConfig{id: {Key: string(text), Algorithm: algorithm}}, id, "", nil)}, nil
}

// verify tells why a bundle is not one of the signer: names are those of all files in
// it, and files those of them that are read.
func (s *signer) verify(signature []byte, files []sourceFile, names map[string]bool) error {
	if s == nil {
		return nil
	}
	if signature == nil {
		return fmt.Errorf("it is not signed: it has no %s", signatureFile)
	}
	var of bundle.SignaturesConfig
	if err := json.Unmarshal(signature, &of); err != nil {
		return fmt.Errorf("%s: %w", signatureFile, err)
	}
	signed, err := new(bundle.DefaultVerifier).VerifyBundleSignature(of, s.config)
	if err != nil {
		return fmt.Errorf("its signature is not one of opa.bundle_key: %w", err)
	}
	hashes := make(map[string]bundle.FileInfo, len(signed))
	for name, info := range signed {
		name = bundleName(name)
		if _, twice := hashes[name]; twice {
			return fmt.Errorf("%s is signed twice", name)
		}
		if !names[name] {
			return fmt.Errorf("%s is signed and not in it", name)
		}
		hashes[name] = info
	}
	for _, f := range files {
		if !slices.Contains(strongHashes, bundle.HashingAlgorithm(hashes[f.name].Algorithm)) && hashes[f.name].Hash != "" {
			return fmt.Errorf("%s is signed by its %s hash, which is too weak", f.name, hashes[f.name].Algorithm)
		}
		if err := bundle.VerifyBundleFile(f.name, *bytes.NewBuffer(f.data), hashes); err != nil {
			return fmt.Errorf("its signature does not fit: %w", err)
		}
	}
	return nil
}

// strongHashes are those that a signature may name files by.
var strongHashes = []bundle.HashingAlgorithm{bundle.SHA256, bundle.SHA384, bundle.SHA512, bundle.SHA512256}

// bundleName is the name of a file in a bundle, from its root on.
func bundleName(name string) string { return path.Clean(strings.TrimLeft(name, "/")) }
