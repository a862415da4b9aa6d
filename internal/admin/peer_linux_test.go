package admin

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connectAs connects to a socket from a thread that runs as another user, and
// that is never used again.
func connectAs(uid int, path string) (net.Conn, error) {
	type outcome struct {
		conn net.Conn
		err  error
	}
	out := make(chan outcome)
	go func() { // ends with its connection, and its thread with it
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			out <- outcome{nil, errno}
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
		if err != nil {
			out <- outcome{nil, err}
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		conn, err := net.FileConn(f)
		out <- outcome{conn, err}
	}()
	o := <-out
	return o.conn, o.err
}

// Another user is turned away even where the modes of socket and folder would
// let it in. Only root can become another user; everybody else tests the rest.
func TestAnotherUserIsTurnedAway(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 {
		uids = []int{65534, 0}
		if err := os.Chmod(dir, 0o755); err != nil { // lets the other user come this far
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil { // lets the other user come this far
			t.Fatal(err)
		}
	}
	for _, uid := range uids {
		conn, err := connectAs(uid, path)
		if err != nil {
			t.Fatalf("uid %d: %v", uid, err)
		}
		defer conn.Close()
	}
	// Accept passes over the first and returns the second.
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if uid, err := peerUID(int(fd)); err != nil || uid != os.Getuid() {
			t.Errorf("uid %d was accepted, %v", uid, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		refused, err := connectAs(65534, path)
		if err != nil {
			t.Fatal(err)
		}
		defer refused.Close()
		go func() { _, _ = l.Accept() }() // ends with the listener
		if err := refused.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := refused.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // exactly the end
			t.Errorf("another user reads %d bytes, %v", n, err)
		}
	}
}
