class Lockkeeper < Formula
  desc "Distributed locks on Redis and Valkey: command and library"
  url "@url@"
  version "@version@"
  sha256 "@sha256@"
  license "MIT"

  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "python@3.13" => :build
  depends_on "uthash" => :build
  depends_on "hiredis"
  depends_on "jansson"
  depends_on "libmicrohttpd"
  depends_on :linux
  depends_on "ncurses"
  depends_on "openssl@3"

  def install
    system "meson", "setup", "build", "-Dtests=false", "-Dbench=false", "-Ddemo=false",
           *std_meson_args
    system "ninja", "-C", "build", "product"
    system "meson", "install", "--no-rebuild", "-C", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lockkeeper --version")
    (testpath/"test.c").write <<~C
      #include <lockkeeper.h>
      int main(void) { return lk_version()[0] == '\\0'; }
    C
    system ENV.cc, "test.c", "-I#{include}", "-L#{lib}", "-llockkeeper", "-o", "test"
    system "./test"
  end
end
