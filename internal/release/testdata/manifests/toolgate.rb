class Toolgate < Formula
  desc "One gateway between MCP clients and everything they can call"
  homepage "https://github.com/toolgate/toolgate"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/toolgate/toolgate/releases/download/v1.2.3/toolgate_darwin_arm64.tar.gz"
      sha256 "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
    end
    on_intel do
      url "https://github.com/toolgate/toolgate/releases/download/v1.2.3/toolgate_darwin_amd64.tar.gz"
      sha256 "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/toolgate/toolgate/releases/download/v1.2.3/toolgate_linux_arm64.tar.gz"
      sha256 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    end
    on_intel do
      url "https://github.com/toolgate/toolgate/releases/download/v1.2.3/toolgate_linux_amd64.tar.gz"
      sha256 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    end
  end

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
