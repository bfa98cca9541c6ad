import com.github.fppt.jedismock.RedisServer;

/** A jedis-mock on the port that is named, until the process is ended. */
public final class Run {
	public static void main(String[] arguments) throws Exception {
		RedisServer server = RedisServer.newRedisServer(Integer.parseInt(arguments[0]));
		server.start();
		Thread.currentThread().join();
	}
}
