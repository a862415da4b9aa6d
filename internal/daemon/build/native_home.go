package build

import (
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/config"
)

// homely are the files and folders in a home directory from which common launchers of
// servers take what they run: package caches, installed tools, package sources, and
// the files that shells, Python and Node.js read for every user.
var homely = []string{
	".npm", ".npmrc", ".node_modules", ".node_libraries", "node_modules", ".yarn", ".yarnrc", ".yarnrc.yml", ".bun", ".bunfig.toml", ".deno", ".cache/deno",
	".cache/pnpm", ".local/share/pnpm", ".config/pnpm", ".nvm", ".volta", ".asdf", ".local/share/mise", ".config/mise",
	".cache/uv", ".config/uv", ".local/share/uv", ".local/lib", ".local/bin", ".local/pipx", ".local/share/pipx", ".config/pip", ".pip", ".pyenv",
	".cargo", ".rustup", ".gem", ".local/share/gem", ".docker",
	".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".zlogin", ".config/fish",
	"Library/Caches/uv", "Library/Caches/deno", "Library/Caches/pnpm", "Library/pnpm", "Library/Python", "Library/Application Support/pip",
	"AppData/Local/npm-cache", "AppData/Roaming/npm", "AppData/Local/uv", "AppData/Roaming/uv", "AppData/Local/pnpm", "AppData/Roaming/Python", "AppData/Local/deno",
}

// home adds what a server reads from its home directory.
func (s *started) home(srv *config.Server) {
	dir := srv.Env["HOME"].Reveal()
	if dir == "" {
		dir, _ = os.UserHomeDir() // without a home directory there is nothing to add
	}
	if dir == "" {
		return
	}
	for _, name := range homely {
		s.add(filepath.Join(dir, filepath.FromSlash(name)))
	}
}
