package cli

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/internal/daemon/build"
)

func keysOf[M ~map[string]V, V any](m M) iter.Seq[string] { return maps.Keys(m) }

// places returns where the files of clients are on this machine, seen from a folder.
func places(projectDir string) clients.Places {
	home, _ := os.UserHomeDir() // unknown, so no file is found in it
	dir, _ := os.UserConfigDir()
	return clients.Places{Home: home, Config: dir, Project: projectDir, Windows: runtime.GOOS == "windows"}
}

// here is the working folder; the home folder is not a project.
func here() string {
	dir, err := os.Getwd()
	if home, _ := os.UserHomeDir(); err != nil || dir == home {
		return ""
	}
	return dir
}

// otherFiles reports configurations that exist but are not used.
func (e *examination) otherFiles(used string) {
	if e.o.Config != "" || used == "" {
		return
	}
	userDir, _ := os.UserConfigDir()
	var found []doctor.Finding
	candidates := []string{config.FileName}
	if userDir != "" {
		candidates = append(candidates, filepath.Join(userDir, "toolgate", config.FileName))
	}
	for _, path := range candidates {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if own, err := os.Stat(used); err == nil && os.SameFile(info, own) {
			continue
		}
		found = append(found, doctor.Found(doctor.CodeOtherFile, path, fmt.Sprintf("%s is used, and %s is not", used, path), ""))
	}
	if len(found) > 0 {
		e.add("which file", "", found...)
	}
}

// clients checks the files of clients: whether they can be read, whether one shadows
// another, and whether the toolgate that they start exists.
func (e *examination) clients() {
	for _, c := range clients.All() {
		existing := c.Existing(places(here()))
		if len(existing) == 0 {
			continue
		}
		var found []doctor.Finding
		first := map[string]string{} // file by the name of a server
		names := make([]string, len(existing))
		for i, f := range existing {
			names[i] = f.Path
			found = append(found, e.clientFile(f, first)...)
		}
		e.add("client "+c.Name, strings.Join(names, ", "), found...)
	}
}

func (e *examination) clientFile(f clients.Found, first map[string]string) []doctor.Finding {
	read, err := config.Load(f.Path, config.Options{Raw: true, Home: places("").Home})
	if err != nil {
		data, readErr := format.ReadFile(f.Path)
		if readErr == nil {
			if _, syntax := format.ParseDocument(f.Path, data); syntax == nil {
				return nil // a settings file without servers
			}
		}
		return []doctor.Finding{doctor.Found(doctor.CodeClientFile, f.Path, faultsOf(err)[0].Error(), "")}
	}
	var found []doctor.Finding
	servers := make([]string, 0, len(read.Servers)+len(read.Skipped))
	for i := range read.Servers {
		servers = append(servers, read.Servers[i].Key)
	}
	for _, s := range read.Skipped {
		servers = append(servers, s.Key)
	}
	slices.Sort(servers)
	for _, name := range slices.Compact(servers) {
		if winner := first[name]; winner != "" && winner != f.Path {
			found = append(found, doctor.Found(doctor.CodeShadowed, f.Path,
				fmt.Sprintf("%s uses the entry %s of %s; that of %s is not used", f.Client.Title, name, winner, f.Path), ""))
			continue
		}
		first[name] = f.Path
	}
	return append(found, startedToolgate(f)...)
}

// startedToolgate checks the program that an entry for toolgate starts.
func startedToolgate(f clients.Found) []doctor.Finding {
	data, err := format.ReadFile(f.Path)
	if err != nil {
		return nil
	}
	root, err := format.ParseDocument(f.Path, data)
	if err != nil {
		return nil
	}
	for _, key := range f.Client.Section {
		root = root.Get(key)
	}
	entry := root.Get(clients.Entry)
	for _, key := range []string{"command", "cmd"} {
		n := entry.Get(key)
		if n == nil {
			continue
		}
		command := n.Value
		if len(n.Items) > 0 {
			command = n.Items[0].Value
		}
		if !filepath.IsAbs(command) {
			continue
		}
		if _, err := os.Stat(command); err != nil {
			return []doctor.Finding{doctor.Found(doctor.CodeClientCommand, f.Path, err.Error(),
				fmt.Sprintf("Run `toolgate connect %s` again.", f.Client.Name))}
		}
	}
	return nil
}

// placeholder matches references, and words that stand for a secret in examples.
var placeholder = regexp.MustCompile(`\$\{|\$[A-Za-z_]|\{env:|^<.*>$|^(?i:your|xxx|changeme|example)`)

// secretValue tells whether the value of a variable or header is a credential, judged by
// its name or its form.
func secretValue(name, value string) bool {
	if value == "" || placeholder.MatchString(value) {
		return false
	}
	return build.SecretName(strings.ReplaceAll(name, "-", "_")) && len(value) >= 6 || build.LooksSecret(value)
}
