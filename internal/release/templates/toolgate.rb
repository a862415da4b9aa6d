class Toolgate < Formula
  desc "{{ .About }}"
  homepage "{{ .Website }}"
  version "{{ .Version }}"
  license "{{ .License }}"
{{ range $system := list "darwin" "linux" }}
  on_{{ if eq $system "darwin" }}macos{{ else }}linux{{ end }} do
{{- range $arch := list "arm64" "amd64" }}{{ with index $.Assets (print $system "_" $arch) }}{{ if .URL }}
    on_{{ if eq $arch "arm64" }}arm{{ else }}intel{{ end }} do
      url "{{ .URL }}"
      sha256 "{{ .SHA256 }}"
    end
{{- end }}{{ end }}{{ end }}
  end
{{ end }}
  def install
    bin.install "toolgate"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/toolgate.bash" => "toolgate"
    zsh_completion.install "completions/_toolgate"
    fish_completion.install "completions/toolgate.fish"
    pkgshare.install "THIRD-PARTY-LICENSES.txt"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/toolgate --version")
    (testpath/"mcp.json").write '{"mcpServers": {}}'
    system bin/"toolgate", "validate", testpath/"mcp.json"
  end
end
