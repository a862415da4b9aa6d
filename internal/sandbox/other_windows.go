package sandbox

const defaultPath = `C:\Windows\System32;C:\Windows`
