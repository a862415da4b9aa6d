package build

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretNames(t *testing.T) {
	t.Parallel()
	secret := []string{
		"DB_PASS", "MYSQL_PWD", "PGPASS", "PGPASSWORD", "SMTPPASS", "DBPASS", "dbPass", "db-pass", "PASS", "PASS2", "USER_PW", "ROOTPWD",
		"PIN", "SIM_PIN", "pin", "KEY", "key", "KEY_1", "SSH_KEY", "SSHKEY", "SIGNINGKEY", "SIGNING_KEY_BASE64", "signingKey", "X-Api-Key",
		"GH_PAT", "GITHUB_PAT_2", "MY_TOKEN", "accessToken", "AWS_SECRET_ACCESS_KEY", "client_secret", "OAUTH_CLIENT", "AUTHORIZATION",
		"SENTRY_DSN", "DATABASE_URL", "SESSION_COOKIE", "AZURE_CREDENTIALS", "AWS_CREDS", "VAULT_PASSCODE",
	}
	harmless := []string{
		"", "_", "KEYBOARD", "KEYBOARD_LAYOUT", "PASSENGER", "PASSENGERS", "PINNED", "PINNED_VERSION", "SPIN", "PING", "PINT", "PATH", "PATTERN",
		"MONKEY", "TURKEY_CITY", "HOTKEY", "KEYS_DIR", "KEYRING", "COMPASS", "BYPASS_CACHE", "PASSIVE", "PASSTHROUGH", "PWD", "OLDPWD", "PWDX",
		"HOME_DIR", "MODE", "DEBUG", "KEY_FILE", "PASS_FILE", "SSH_KEY_PATH", "KEY_ID", "PRIMARY_KEY_COLUMN", "PIN_LENGTH", "COMPAT", "PATCH", "ESPWDS", "SPWN",
	}
	for want, names := range map[bool][]string{true: secret, false: harmless} {
		for _, name := range names {
			if SecretName(name) != want {
				t.Errorf("%q is taken for a secret: %t", name, !want)
			}
		}
	}
}

func TestSecretsOfVariables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, value string
		want        []string
	}{
		{"DB_PASS", "value", []string{"value"}},
		{"MODE", "production", nil},
		{"REDIS_URL", "redis://:of-redis@host:6379/0", []string{":of-redis", "of-redis"}},
		{"BROKER_URL", "amqp://me:of%2Fbroker@host//", []string{"me:of/broker", "of%2Fbroker", "of/broker"}},
		{"SERVICE", "https://me:of-service@host/path", []string{"me:of-service", "of-service"}},
		{"BASE_URL", "https://host:8080/me@page?page=1", nil},
		{"BASE_URL", "https://host/?key=of-query&sig=of-signature", []string{"of-query", "of-signature"}},
		{"REPO_URL", "https://ghp_" + "0123456789abcdefghijABCDEFGHIJ0123@github.com/a/b", []string{"ghp_" + "0123456789abcdefghijABCDEFGHIJ0123"}},
		{"REPO_URL", "ssh://readonly@host/a", nil},
		{"PG_URL", "postgres://me:of/p%g@s@host/db", []string{"of/p%g@s"}},
		{"DATABASE_URL", "postgres://me:of-database@host/db", []string{"me:of-database", "of-database", "postgres://me:of-database@host/db"}},
		{"TEXT", "me:no-url@host", nil},
		{"TEXT", "://me:no-url@host", nil},
	} {
		found := map[string]bool{}
		secretsOfVariable(tt.name, tt.value, func(secret string) { found[secret] = true })
		if diff := cmp.Diff(tt.want, slices.Sorted(maps.Keys(found))); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", tt.name, tt.value, diff)
		}
	}
}
